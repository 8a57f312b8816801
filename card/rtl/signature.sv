// Looks for the contents of a small rule set in a packet, a byte a clock: an Aho-Corasick automaton
// in block RAM (signature_table.sv, compiled by card/signatures.py from card/signatures.rules). A
// rule hits when all its contents have been seen and its protocol and destination port fit; the
// lowest number wins. `ready` keeps words away while there is no room for those on their way: up to
// five.
// verilator lint_off PINCONNECTEMPTY
module signature (
    input  logic        clk,
    input  logic        rst,
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
      .clk, .rst(rst || start), .s_valid(a_valid && enable), .s_ready(), .s_item({a_bytes, a_data}), .m_valid(w_valid), .m_ready(w_ready),
      .m_item({word_bytes, word}), .level);
  always_ff @(posedge clk) ready <= !enable || level <= 4'd2;

  // A step takes four clocks from the byte to its contents, one behind the other.
  logic [2:0]  lane;
  logic        step;
  logic [7:0]  value;
  logic [4:1]  steps;
  logic [15:0] seen, matched;
  logic        ended;
  assign value = word[8*lane +: 8];
  assign step = w_valid;
  assign last_word = {1'b0, lane} == word_bytes - 4'd1;
  assign w_ready = step && last_word;
  signature_table u_table (.clk, .start, .step, .value, .matched, .seen, .protocol, .port({port[7:0], port[15:8]}), .hit, .number);

  always_ff @(posedge clk) begin
    if (start || rst) begin
      lane <= '0;
      seen <= '0;
      ended <= 1'b0;
      steps <= '0;
    end else begin
      if (step) lane <= last_word ? '0 : lane + 1'b1;
      steps <= {steps[3:1], step};
      if (steps[4]) seen <= seen | matched;
      if (finished) ended <= 1'b1;
    end
  end
  assign done = ended && !w_valid && level == '0 && steps == '0 && !a_valid;
endmodule
