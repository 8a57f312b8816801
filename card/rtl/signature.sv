// Looks for the contents of a small rule set in a packet, a byte a clock: an Aho-Corasick automaton
// in block RAM (signature_table.sv), loaded at run time. A rule hits when all its contents have
// been seen and its protocol and destination port fit; the lowest number wins. `ready` keeps words
// away while there is no room for those on their way: up to five.
// verilator lint_off PINCONNECTEMPTY
module signature (
    input  logic        clk,
    input  logic        rst,
    input  logic        page_begin,
    input  logic        page_write,
    input  logic [1:0]  page,
    input  logic [9:0]  page_word,
    input  logic [63:0] page_data,
    input  logic        enable,
    input  logic        start, // before the first word
    input  logic        a_valid,
    input  logic [63:0] a_data,
    input  logic [3:0]  a_bytes,
    input  logic        finished,
    input  logic [7:0]  protocol,
    input  logic [15:0] port, // destination, as bytes of the packet
    output logic        ready,
    output logic        done, // from the end of the scan to start
    output logic        hit,
    output logic [7:0]  number // from 1
);
  logic        w_valid, w_ready, last_word;
  logic [63:0] word;
  logic [3:0]  word_bytes;
  logic [3:0]  level;
  fifo #(.WIDTH(68), .DEPTH_LOG2(3)) u_words (
      .clk, .rst(rst || start), .s_valid(a_valid && active), .s_ready(), .s_item({a_bytes, a_data}), .m_valid(w_valid), .m_ready(w_ready),
      .m_item({word_bytes, word}), .level);
  logic active, loaded;
  assign active = enable && loaded;
  always_ff @(posedge clk) ready <= !active || level <= 4'd2;

  // A step takes five clocks from the word to its byte's contents, one behind the other.
  logic [2:0]  lane;
  logic        step, step_value; // step_value: `value` is a byte
  logic [7:0]  value;
  logic [4:1]  steps;
  logic [31:0] seen, matched;
  logic        ended, over, judge, judged;
  assign step = w_valid;
  assign last_word = {1'b0, lane} == word_bytes - 4'd1;
  assign w_ready = step && last_word;
  signature_table u_table (
      .clk, .rst, .page_begin, .page_write, .page, .page_word, .page_data, .loaded, .start, .step(step_value), .value, .matched, .judge, .seen,
      .protocol, .port({port[7:0], port[15:8]}), .judged, .number);
  assign hit = number != '0;

  always_ff @(posedge clk) begin
    value <= word[8*lane +: 8];
    if (start || rst) begin
      step_value <= 1'b0;
      lane <= '0;
      seen <= '0;
      ended <= 1'b0;
      steps <= '0;
      over <= 1'b0;
      judge <= 1'b0;
    end else begin
      if (step) lane <= last_word ? '0 : lane + 1'b1;
      step_value <= step;
      steps <= {steps[3:1], step_value};
      if (steps[4]) seen <= seen | matched;
      if (finished) ended <= 1'b1;
      over <= scanned;
      judge <= scanned && !over;
    end
  end
  logic scanned;
  assign scanned = ended && !w_valid && level == '0 && !step_value && steps == '0 && !a_valid;
  assign done = judged;
endmodule
