// MixColumns of FIPS-197 (5.1.3), or InvMixColumns (5.3.3), on a whole state.
module aes_mix #(
    parameter bit INVERSE = 0
) (
    input  logic [127:0] x,
    output logic [127:0] y
);
  function automatic logic [7:0] xtime(input logic [7:0] b);
    xtime = {b[6:0], 1'b0} ^ (b[7] ? 8'h1b : 8'h00);
  endfunction

  // {0e, 0b, 0d, 09} = {02, 03, 01, 01} * {05, 00, 04, 00}: what comes before the forward matrix.
  function automatic logic [31:0] unmix_column(input logic [31:0] c);
    logic [7:0] even, odd;
    even  = xtime(xtime(c[31:24] ^ c[15:8]));
    odd   = xtime(xtime(c[23:16] ^ c[7:0]));
    unmix_column = c ^ {even, odd, even, odd};
  endfunction

  function automatic logic [31:0] mix_column(input logic [31:0] c);
    logic [7:0] all;
    all = c[31:24] ^ c[23:16] ^ c[15:8] ^ c[7:0];
    mix_column = {
      c[31:24] ^ all ^ xtime(c[31:24] ^ c[23:16]),
      c[23:16] ^ all ^ xtime(c[23:16] ^ c[15:8]),
      c[15:8] ^ all ^ xtime(c[15:8] ^ c[7:0]),
      c[7:0] ^ all ^ xtime(c[7:0] ^ c[31:24])
    };
  endfunction

  always_comb begin
    for (int i = 0; i < 4; i++) begin
      y[i*32+:32] = INVERSE ? mix_column(unmix_column(x[i*32+:32])) : mix_column(x[i*32+:32]);
    end
  end
endmodule
