// The resets of two clocks after power-up, as a time of eight cycles of the slower clock: four
// cycles of one, four of the other meanwhile or later, and four of the first again.
module formal_resets (
    input  logic s_clk,
    input  logic m_clk,
    output logic s_rst,
    output logic m_rst
);
  logic [3:0] s_cycles = '0;
  logic [2:0] m_cycles = '0;
  logic on_s = 1'b1, on_m = 1'b1;
  assign s_rst = on_s;
  assign m_rst = on_m;
  always_ff @(posedge s_clk) begin
    if (s_cycles[2:0] != 3'd4 || m_cycles[2]) if (!s_cycles[3]) s_cycles <= s_cycles + 1'b1;
    if (s_cycles[3]) on_s <= 1'b0;
  end
  always_ff @(posedge m_clk) begin
    if (s_cycles[3:2] != '0 && !m_cycles[2]) m_cycles <= m_cycles + 1'b1;
    if (s_cycles[3]) on_m <= 1'b0;
  end
endmodule
