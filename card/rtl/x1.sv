// X1, the transmit pipeline: frames from the host through the function in the slot, to the MAC or
// back to the host.
// verilator lint_off PINCONNECTEMPTY
module x1 #(
    parameter int FUNCTIONS = 2,
    parameter int LOAD_CYCLES = 64,
    parameter int DEPTH_LOG2 = 11
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic        s_sof,
    input  logic        s_eof,
    input  logic [3:0]  s_bytes,
    input  logic        s_err,
    output logic        m_valid,
    input  logic        m_ready,
    output logic [63:0] m_data,
    output logic        m_sof,
    output logic        m_eof,
    output logic [3:0]  m_bytes,
    output logic        m_err,
    output logic        m_to_mac,
    output logic [3:0]  slot_active
);
  logic g_valid, g_ready, g_eof, g_err;
  logic [63:0] g_data;
  logic [3:0] g_bytes;
  frame_guard u_guard (
      .clk, .rst, .s_valid, .s_ready, .s_data, .s_sof, .s_eof, .s_bytes, .s_err, .m_valid(g_valid), .m_ready(g_ready),
      .m_data(g_data), .m_sof(), .m_eof(g_eof), .m_bytes(g_bytes), .m_err(g_err), .unframed_words(), .cuts());
  pipeline #(.FUNCTIONS(FUNCTIONS), .LOAD_CYCLES(LOAD_CYCLES), .DEPTH_LOG2(DEPTH_LOG2)) u_pipeline (
      .clk, .rst, .s_valid(g_valid), .s_ready(g_ready), .s_data(g_data), .s_eof(g_eof), .s_bytes(g_bytes), .s_err(g_err), .m_valid,
      .m_ready, .m_data, .m_sof, .m_eof, .m_bytes, .m_err, .m_to_mac, .map_write(), .map_spi(), .map_index(), .slot_active);
endmodule
