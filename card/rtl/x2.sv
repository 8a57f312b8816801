// X2, the receive pipeline: frames from the MAC, which the parser gives a prefix, and frames with a
// prefix from the host, through the function in the slot to the host or, if the prefix says so, to
// the MAC.
// verilator lint_off PINCONNECTEMPTY
module x2 #(
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
    input  logic        s_from_mac, // holds for the whole frame
    input  logic [3:0]  look,       // done with frames from the MAC: IP checksum, UDP checksum, filter, signature
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
  logic g_valid, g_ready, g_sof, g_eof, g_err, g_from_mac, p_valid, p_ready, p_eof, p_err, map_write;
  logic [63:0] g_data, p_data;
  logic [3:0] g_bytes, p_bytes;
  logic [31:0] map_spi;
  logic [7:0] map_index;
  frame_guard u_guard (
      .clk, .rst, .s_valid, .s_ready, .s_data, .s_sof, .s_eof, .s_bytes, .s_err, .m_valid(g_valid), .m_ready(g_ready),
      .m_data(g_data), .m_sof(g_sof), .m_eof(g_eof), .m_bytes(g_bytes), .m_err(g_err), .unframed_words(), .cuts());
  // The guard holds one word: what it shows came with the word it took last.
  always_ff @(posedge clk) if (s_valid && s_ready) g_from_mac <= s_from_mac;
  parser u_parser (
      .clk, .rst, .map_write, .map_spi, .map_index, .look, .s_valid(g_valid), .s_ready(g_ready), .s_data(g_data), .s_sof(g_sof),
      .s_eof(g_eof), .s_bytes(g_bytes), .s_err(g_err), .s_from_mac(g_from_mac), .m_valid(p_valid), .m_ready(p_ready), .m_data(p_data),
      .m_sof(), .m_eof(p_eof), .m_bytes(p_bytes), .m_err(p_err));
  pipeline #(.FUNCTIONS(FUNCTIONS), .LOAD_CYCLES(LOAD_CYCLES), .DEPTH_LOG2(DEPTH_LOG2)) u_pipeline (
      .clk, .rst, .s_valid(p_valid), .s_ready(p_ready), .s_data(p_data), .s_eof(p_eof), .s_bytes(p_bytes), .s_err(p_err), .m_valid,
      .m_ready, .m_data, .m_sof, .m_eof, .m_bytes, .m_err, .m_to_mac, .map_write, .map_spi, .map_index, .slot_active);
endmodule
