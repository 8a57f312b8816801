// GHASH of SP 800-38D (6.4): y = (y ^ block) * H, DIGIT bits of the multiplier a cycle. With 16 a
// block takes 9 cycles, of which the first only takes it; with OVERLAP that one is the last of the
// block before, so that 64 bits a cycle take a block every 2 cycles.
//
// 9 cycles keep up with the iterative AES-128, which takes 10; 2 with a stream of 64 bits. GCM
// writes the coefficient of x^0 in the highest bit; inside it is the lowest.
module ghash #(
    parameter int DIGIT = 16,   // 64 at most
    parameter bit OVERLAP = 0
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         h_valid,   // takes a new H while no block is in work
    input  logic [127:0] h_data,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic         in_first,  // y begins as 0
    input  logic [127:0] in_data,
    output logic         y_valid,
    output logic [127:0] y          // of all blocks taken, while y_valid
);
  localparam int STEP = $clog2(128 / DIGIT);

  logic [127:0] h, multiplier, product, next;
  logic [STEP-1:0] step;
  logic busy, last;

  function automatic logic [127:0] reflect(input logic [127:0] x);
    for (int i = 0; i < 128; i++) reflect[i] = x[127-i];
  endfunction

  // product * x^DIGIT + digit * h, reduced by x^128 = x^7 + x^2 + x + 1.
  function automatic logic [127:0] advance(input logic [127:0] p, input logic [DIGIT-1:0] digit, input logic [127:0] by);
    logic [127+DIGIT:0] sum;
    logic [6+DIGIT:0] high;
    sum = {p, DIGIT'(0)};
    for (int i = 0; i < DIGIT; i++) if (digit[i]) sum = sum ^ ({DIGIT'(0), by} << i);
    high = {7'd0, sum[127+DIGIT:128]};
    high = high ^ (high << 1) ^ (high << 2) ^ (high << 7);
    advance = sum[127:0] ^ 128'(high);
  endfunction

  assign last = step == '1;
  assign in_ready = !busy || (OVERLAP && last);
  assign next = OVERLAP && busy ? advance(product, multiplier[127-:DIGIT], h) : product;
  assign y_valid = !busy;
  assign y = reflect(product);

  always_ff @(posedge clk) begin
    if (h_valid) h <= reflect(h_data);
    if (in_valid && in_ready) begin
      multiplier <= reflect(in_data) ^ (in_first ? '0 : next);
      product <= '0;
      step <= '0;
      busy <= 1'b1;
    end else if (busy) begin
      product <= advance(product, multiplier[127-:DIGIT], h);
      multiplier <= multiplier << DIGIT;
      step <= step + 1'b1;
      if (last) busy <= 1'b0;
    end
    if (rst) busy <= 1'b0;
  end
endmodule
