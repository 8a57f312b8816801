// SHA-1's compression (FIPS 180-4, 6.1.2), two rounds a cycle: a block in 42 cycles.
//
// The block's words come in as the rounds need them. What a round adds besides a and f (e + K + W)
// is summed a cycle ahead, which leaves two additions in a row in a cycle.
module sha1 (
    input  logic         clk,
    input  logic         rst,
    input  logic         start_valid,  // begins a block
    output logic         start_ready,
    input  logic [159:0] start_state,  // the chaining value, a in the highest bits
    input  logic         in_valid,     // eight times a block
    output logic         in_ready,
    input  logic [ 63:0] in_words,     // two words, the first in the highest bits
    output logic [159:0] state         // the new chaining value, while start_ready
);
  localparam logic [5:0] PAIRS = 6'd40;

  logic [31:0] a, b, c, d, e;
  logic [159:0] from;       // the block's chaining value
  logic [31:0] w[16];       // the last sixteen words, w[0] the oldest
  logic [31:0] w0, w1;      // the words of this pair
  logic [31:0] add0, add1;  // e + K + W of the rounds of the pair before
  logic [5:0] pair;         // whose words are fetched; the rounds are one behind
  logic [31:0] t0, t1;
  logic busy, go;

  function automatic logic [31:0] rotl(input logic [31:0] x, input int by);
    rotl = (x << by) | (x >> (32 - by));
  endfunction

  // Two bits say which of the four quarters of the rounds it is.
  function automatic logic [1:0] quarter(input logic [5:0] at);
    if (at < 10) quarter = 2'd0;
    else if (at < 20) quarter = 2'd1;
    else if (at < 30) quarter = 2'd2;
    else quarter = 2'd3;
  endfunction

  function automatic logic [31:0] f(input logic [1:0] q, input logic [31:0] x, input logic [31:0] y, input logic [31:0] z);
    case (q)
      2'd0: f = (x & y) | (~x & z);
      2'd2: f = (x & y) | (x & z) | (y & z);
      default: f = x ^ y ^ z;
    endcase
  endfunction

  function automatic logic [31:0] k(input logic [1:0] q);
    case (q)
      2'd0: k = 32'h5a827999;
      2'd1: k = 32'h6ed9eba1;
      2'd2: k = 32'h8f1bbcdc;
      default: k = 32'hca62c1d6;
    endcase
  endfunction

  logic [1:0] fetch_quarter, round_quarter;
  assign fetch_quarter = quarter(pair);
  assign in_ready = busy && pair < 8;
  assign go = busy && (pair >= 8 || in_valid);
  assign start_ready = !busy;
  assign w0 = pair < 8 ? in_words[63:32] : rotl(w[13] ^ w[8] ^ w[2] ^ w[0], 1);
  assign w1 = pair < 8 ? in_words[31:0] : rotl(w[14] ^ w[9] ^ w[3] ^ w[1], 1);
  assign t0 = rotl(a, 5) + f(round_quarter, b, c, d) + add0;
  assign t1 = rotl(t0, 5) + f(round_quarter, a, rotl(b, 30), c) + add1;
  assign state = {from[159:128] + a, from[127:96] + b, from[95:64] + c, from[63:32] + d, from[31:0] + e};

  always_ff @(posedge clk) begin
    if (start_valid && start_ready) begin
      {a, b, c, d, e} <= start_state;
      from <= start_state;
      pair <= 6'd0;
      busy <= 1'b1;
    end else if (go) begin
      for (int i = 0; i < 14; i++) w[i] <= w[i+2];
      w[14] <= w0;
      w[15] <= w1;
      // Two rounds on, c is e and b, turned, is d.
      add0 <= w0 + k(fetch_quarter) + (pair == 0 ? e : c);
      add1 <= w1 + k(fetch_quarter) + (pair == 0 ? d : rotl(b, 30));
      round_quarter <= fetch_quarter;
      if (pair != 0) {a, b, c, d, e} <= {t1, t0, rotl(a, 30), rotl(b, 30), c};
      pair <= pair + 6'd1;
      if (pair == PAIRS) busy <= 1'b0;
    end
    if (rst) busy <= 1'b0;
  end
endmodule
