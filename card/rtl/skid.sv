// A register in both directions of a valid/ready link: cuts long paths of `ready`. Two entries,
// full rate.
module skid #(
    parameter int WIDTH = 64
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             s_valid,
    output logic             s_ready,
    input  logic [WIDTH-1:0] s_item,
    output logic             m_valid,
    input  logic             m_ready,
    output logic [WIDTH-1:0] m_item
);
  logic             kept_valid;
  logic [WIDTH-1:0] kept;

  assign s_ready = !kept_valid;

  always_ff @(posedge clk) begin
    if (rst) begin
      m_valid <= 1'b0;
      kept_valid <= 1'b0;
    end else if (!m_valid || m_ready) begin
      m_valid <= s_valid || kept_valid;
      kept_valid <= 1'b0;
    end else if (s_valid && s_ready) begin
      kept_valid <= 1'b1;
    end
    if (!m_valid || m_ready) m_item <= kept_valid ? kept : s_item;
    if (s_ready) kept <= s_item;
  end
endmodule
