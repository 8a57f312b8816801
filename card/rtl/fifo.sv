// A queue in block RAM. The oldest entry stands at the output (one clock after it was written, at the earliest two);
// an entry a clock in and out. Holds 2^DEPTH_LOG2 entries and one more in the output register.
module fifo #(
    parameter int WIDTH = 64,
    parameter int DEPTH_LOG2 = 4
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             s_valid,
    output logic             s_ready,
    input  logic [WIDTH-1:0] s_item,
    output logic             m_valid,
    input  logic             m_ready,
    output logic [WIDTH-1:0] m_item,
    output logic [DEPTH_LOG2:0] level // entries in the RAM
);
  logic [WIDTH-1:0] mem[0:(1 << DEPTH_LOG2) - 1];
  logic [DEPTH_LOG2:0] wr, rd;

  assign level = wr - rd;
  assign s_ready = !level[DEPTH_LOG2];

  always_ff @(posedge clk) begin
    if (s_valid && s_ready) begin
      mem[wr[DEPTH_LOG2-1:0]] <= s_item;
    end
    if (!m_valid || m_ready) m_item <= mem[rd[DEPTH_LOG2-1:0]];
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      wr <= '0;
      rd <= '0;
      m_valid <= 1'b0;
    end else begin
      if (s_valid && s_ready) wr <= wr + 1'b1;
      if (!m_valid || m_ready) begin
        m_valid <= level != '0;
        if (level != '0) rd <= rd + 1'b1;
      end
    end
  end
endmodule
