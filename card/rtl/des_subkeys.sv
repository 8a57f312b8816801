// DES' sixteen subkeys (FIPS 46-3), one a cycle while `step` is high.
module des_subkeys (
    input  logic        clk,
    input  logic        load,
    // verilator lint_off UNUSEDSIGNAL
    input  logic [63:0] key,     // the lowest bit of each byte is parity
    // verilator lint_on UNUSEDSIGNAL
    input  logic        step,
    input  logic [ 3:0] index,   // of the subkey that stands in `subkey`
    output logic [47:0] subkey
);
  logic [55:0] halves, turned;  // C and D, before and after this subkey's turn
  logic once;                   // turns by one place, not two

  assign once = index == 4'd0 || index == 4'd1 || index == 4'd8 || index == 4'd15;
  assign turned = once ? {halves[54:28], halves[55], halves[26:0], halves[27]}
                       : {halves[53:28], halves[55:54], halves[25:0], halves[27:26]};
  assign subkey = {
    turned[42], turned[39], turned[45], turned[32], turned[55], turned[51], turned[53], turned[28], turned[41], turned[50],
    turned[35], turned[46], turned[33], turned[37], turned[44], turned[52], turned[30], turned[48], turned[40], turned[49],
    turned[29], turned[36], turned[43], turned[54], turned[15], turned[4], turned[25], turned[19], turned[9], turned[1],
    turned[26], turned[16], turned[5], turned[11], turned[23], turned[8], turned[12], turned[7], turned[17], turned[0],
    turned[22], turned[3], turned[10], turned[14], turned[6], turned[20], turned[27], turned[24]
  };

  always_ff @(posedge clk) begin
    if (load) begin
      halves <= {
        key[7], key[15], key[23], key[31], key[39], key[47], key[55], key[63], key[6], key[14], key[22], key[30], key[38],
        key[46], key[54], key[62], key[5], key[13], key[21], key[29], key[37], key[45], key[53], key[61], key[4], key[12],
        key[20], key[28], key[1], key[9], key[17], key[25], key[33], key[41], key[49], key[57], key[2], key[10], key[18],
        key[26], key[34], key[42], key[50], key[58], key[3], key[11], key[19], key[27], key[35], key[43], key[51], key[59],
        key[36], key[44], key[52], key[60]
      };
    end else if (step) halves <= turned;
  end
endmodule
