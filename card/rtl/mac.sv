// The Ethernet side, both directions at once. Frames inside the card run from the destination
// address to the payload's end. The wire has a clock of its own, `mac_clk`, with a byte in each
// cycle; links, counters and `rst` are of `clk`. `rst` must last for eight cycles of the slower
// clock.
// verilator lint_off PINCONNECTEMPTY
module mac #(
    parameter int TX_DEPTH_LOG2 = 11,
    parameter int RX_DEPTH_LOG2 = 11,
    parameter int MAX_BYTES = 9022
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        mac_clk,
    // to the wire
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic        s_sof,
    input  logic        s_eof,
    input  logic [3:0]  s_bytes,
    input  logic        s_err,
    output logic [7:0]  gmii_txd,
    output logic        gmii_tx_en,
    output logic        gmii_tx_er,
    // from the wire
    input  logic [7:0]  gmii_rxd,
    input  logic        gmii_rx_dv,
    input  logic        gmii_rx_er,
    output logic        m_valid,
    input  logic        m_ready,
    output logic [63:0] m_data,
    output logic        m_sof,
    output logic        m_eof,
    output logic [3:0]  m_bytes,
    output logic        m_err,
    output logic [31:0] sent,
    output logic [31:0] dropped,
    output logic [31:0] received,
    output logic [31:0] broken,
    output logic [31:0] overruns
);
  logic g_valid, g_ready, g_eof, g_err;
  logic [63:0] g_data;
  logic [3:0] g_bytes;
  assign m_err = 1'b0; // a broken frame does not get this far

  frame_guard u_guard (
      .clk, .rst, .s_valid, .s_ready, .s_data, .s_sof, .s_eof, .s_bytes, .s_err,
      .m_valid(g_valid), .m_ready(g_ready), .m_data(g_data), .m_sof(), .m_eof(g_eof), .m_bytes(g_bytes), .m_err(g_err),
      .unframed_words(), .cuts());
  logic mac_rst, now_sent, now_received, now_broken, now_overrun;
  synchroniser u_reset (.clk(mac_clk), .d(rst), .q(mac_rst));
  mac_tx #(.DEPTH_LOG2(TX_DEPTH_LOG2)) u_tx (
      .clk, .rst, .mac_clk, .mac_rst, .s_valid(g_valid), .s_ready(g_ready), .s_data(g_data), .s_eof(g_eof),
      .s_bytes(g_bytes), .s_err(g_err), .gmii_txd, .gmii_tx_en, .gmii_tx_er, .sent(now_sent), .dropped);
  mac_rx #(.DEPTH_LOG2(RX_DEPTH_LOG2), .MAX_BYTES(MAX_BYTES)) u_rx (
      .clk, .rst, .mac_clk, .mac_rst, .gmii_rxd, .gmii_rx_dv, .gmii_rx_er, .m_valid, .m_ready, .m_data, .m_sof, .m_eof,
      .m_bytes, .received(now_received), .broken(now_broken), .overrun(now_overrun));

  count_crossing #(.WIDTH(32)) u_sent (
      .clk(mac_clk), .rst(mac_rst), .step(now_sent), .count(), .to_clk(clk), .to_rst(rst), .seen(sent));
  count_crossing #(.WIDTH(32)) u_received (
      .clk(mac_clk), .rst(mac_rst), .step(now_received), .count(), .to_clk(clk), .to_rst(rst), .seen(received));
  count_crossing #(.WIDTH(32)) u_broken (
      .clk(mac_clk), .rst(mac_rst), .step(now_broken), .count(), .to_clk(clk), .to_rst(rst), .seen(broken));
  count_crossing #(.WIDTH(32)) u_overruns (
      .clk(mac_clk), .rst(mac_rst), .step(now_overrun), .count(), .to_clk(clk), .to_rst(rst), .seen(overruns));
endmodule
