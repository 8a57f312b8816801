// The tables of the signature scanner, which SIGNATURE_WRITE fills: an Aho-Corasick automaton of up
// to 256 states over up to 64 classes of bytes, 32 contents and 32 rules
// (lab/card/src/signature.rs and card/signatures.py compile them). Pages of 64-bit words:
//
//   0, 1   the next state, a byte for each state (8 words) and class
//   2      words 0 to 31: the class of each byte; 128 to 255: the contents that end in each state,
//          32 bits for each
//   3      a rule a word: the contents that it needs 31:0, protocol 39:32, destination port 55:40
//          (0: any). As many rules as words; none from the beginning of any page on.
//
// A step: `value` in; four clocks later `matched` has the contents that end there. A rule a clock
// is compared once `judge` is given.
module signature_table (
    input  logic        clk,
    input  logic        rst,
    input  logic        page_begin, // pulse
    input  logic        page_write,
    input  logic [1:0]  page,
    input  logic [9:0]  page_word,
    input  logic [63:0] page_data,
    output logic        loaded,   // there are rules
    input  logic        start,
    input  logic        step,
    input  logic [7:0]  value,
    output logic [31:0] matched,
    input  logic        judge,    // pulse: `seen` and the others hold from now on
    input  logic [31:0] seen,
    input  logic [7:0]  protocol,
    input  logic [15:0] port,
    output logic        judged,   // from the verdict to start
    output logic [7:0]  number    // of the first rule that hits, from 1; 0: none
);
  // None is written while frames are scanned.
  (* no_rw_check *) logic [63:0] next_mem[0:2047];
  (* no_rw_check *) logic [63:0] class_mem[0:31];
  (* no_rw_check *) logic [63:0] contents_mem[0:127];
  (* no_rw_check *) logic [55:0] rule_mem[0:31];
  logic [5:0]  rules;
  assign loaded = rules != '0;

  always_ff @(posedge clk) begin
    if (page_write && !page[1]) next_mem[{page[0], page_word}] <= page_data;
    if (page_write && page == 2'd2 && page_word[9:5] == '0) class_mem[page_word[4:0]] <= page_data;
    if (page_write && page == 2'd2 && page_word[9:7] == 3'd1) contents_mem[page_word[6:0]] <= page_data;
    if (page_write && page == 2'd3 && page_word[9:5] == '0) rule_mem[page_word[4:0]] <= page_data[55:0];
    if (rst || page_begin) rules <= '0;
    else if (page_write && page == 2'd3 && page_word[9:5] == '0) rules <= {1'b0, page_word[4:0]} + 6'd1;
  end

  // ---- the automaton
  logic [63:0] row, ends, classes;
  logic [2:0]  lane;
  logic [5:0]  kind;
  logic [7:0]  state;
  logic        move, half;
  assign classes = class_mem[value[7:3]];
  assign state = row[8*lane +: 8];
  always_ff @(posedge clk) begin
    kind <= classes[8*value[2:0] +: 6];
    move <= step && !start;
    // State 0 is where the automaton begins.
    if (start) row <= '0;
    else if (move) row <= next_mem[{state, kind[5:3]}];
    if (move) lane <= kind[2:0];
    {ends, half} <= {contents_mem[state[7:1]], state[0]};
    matched <= half ? ends[63:32] : ends[31:0];
  end

  // ---- the rules
  logic [55:0] rule;
  logic [5:0]  at;
  logic        running, hits;
  assign hits = (seen & rule[31:0]) == rule[31:0] && (rule[39:32] == '0 || rule[39:32] == protocol)
      && (rule[55:40] == '0 || rule[55:40] == port);
  always_ff @(posedge clk) begin
    rule <= rule_mem[running ? at[4:0] : 5'd0];
    if (rst || start) begin
      running <= 1'b0;
      judged <= 1'b0;
      number <= '0;
    end else if (judge) begin
      running <= loaded;
      judged <= !loaded;
      at <= 6'd1;
    end else if (running) begin
      at <= at + 1'b1;
      if (hits) number <= {2'b0, at};
      if (hits || at >= rules) {running, judged} <= 2'b01;
    end
  end
endmodule
