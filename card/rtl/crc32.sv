// Ethernet's CRC-32 (IEEE 802.3, reflected), one byte a step; combinational. Begin with all ones;
// the FCS is ~crc, low byte first, and over a frame with its FCS the register ends at 0xdebb20e3.
module crc32 (
    input  logic [31:0] crc,
    input  logic [7:0]  data,
    output logic [31:0] next
);
  always_comb begin
    next = crc ^ {24'b0, data};
    for (int i = 0; i < 8; i++) next = next[0] ? (next >> 1) ^ 32'hedb8_8320 : next >> 1;
  end
endmodule
