// GHASH of SP 800-38D (6.4): y = (y ^ block) * H, 16 bits of the multiplier a cycle, so a block in
// 9 cycles.
//
// That keeps up with AES-128, which takes 10. GCM writes the coefficient of x^0 in the highest bit;
// inside it is the lowest.
module ghash (
    input  logic         clk,
    input  logic         rst,
    input  logic         h_valid,   // takes a new H while no block is in work
    input  logic [127:0] h_data,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic         in_first,  // y begins as 0
    input  logic [127:0] in_data,
    output logic [127:0] y          // of all blocks taken, while in_ready
);
  localparam int DIGIT = 16;

  logic [127:0] h, multiplier, product;
  logic [2:0] step;
  logic busy;

  function automatic logic [127:0] reflect(input logic [127:0] x);
    for (int i = 0; i < 128; i++) reflect[i] = x[127-i];
  endfunction

  // product * x^16 + digit * h, reduced by x^128 = x^7 + x^2 + x + 1.
  function automatic logic [127:0] advance(input logic [127:0] p, input logic [DIGIT-1:0] digit, input logic [127:0] by);
    logic [143:0] sum;
    logic [22:0] high;
    sum = {p, 16'd0};
    for (int i = 0; i < DIGIT; i++) if (digit[i]) sum = sum ^ ({16'd0, by} << i);
    high = {7'd0, sum[143:128]};
    high = high ^ (high << 1) ^ (high << 2) ^ (high << 7);
    advance = sum[127:0] ^ {105'd0, high};
  endfunction

  assign in_ready = !busy;
  assign y = reflect(product);

  always_ff @(posedge clk) begin
    if (h_valid) h <= reflect(h_data);
    if (in_valid && in_ready) begin
      multiplier <= reflect(in_data) ^ (in_first ? '0 : product);
      product <= '0;
      step <= '0;
      busy <= 1'b1;
    end else if (busy) begin
      product <= advance(product, multiplier[127-:DIGIT], h);
      multiplier <= multiplier << DIGIT;
      step <= step + 1'b1;
      if (step == 3'd7) busy <= 1'b0;
    end
    if (rst) busy <= 1'b0;
  end
endmodule
