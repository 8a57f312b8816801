// A packet pipeline, the body of X1 and of X2: frames with a prefix in (docs/lab/card.md),
// finished frames out, to the host behind a status or to the MAC bare.
// verilator lint_off PINCONNECTEMPTY
module pipeline #(
    parameter int FUNCTIONS = 2,
    parameter int LOAD_CYCLES = 64,
    parameter int DEPTH_LOG2 = 11
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
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
    output logic        map_write, // an SPI to be found in what comes from the MAC
    output logic [31:0] map_spi,
    output logic [7:0]  map_index,
    output logic [3:0]  slot_active
);
  logic         f_valid, f_ready, f_last, j_valid, j_ready, j_last, w_valid, w_ready, w_sof, w_eof;
  logic [63:0]  f_data, j_data, w_data, rule_data;
  logic [3:0]   f_bytes, j_bytes, w_bytes, look, rule_number, rule_word;
  logic         look_fill, fin_valid, fin_ready, fin_frame, fin_to_mac, rule_clear, rule_accept, rule_write;
  logic [13:0]  look_off;
  logic         page_begin, page_write;
  logic [1:0]   page;
  logic [9:0]   page_word;
  logic [127:0] fin_status;

  // Registers at both ends: what is before this pipeline and behind it, across the card, is no part
  // of its paths.
  logic        c_valid, c_ready, c_eof, c_err, t_valid, t_ready, t_sof, t_eof, t_err, t_to_mac;
  logic [63:0] c_data, t_data;
  logic [3:0]  c_bytes, t_bytes;
  skid #(.WIDTH(70)) u_in (
      .clk, .rst, .s_valid, .s_ready, .s_item({s_err, s_eof, s_bytes, s_data}), .m_valid(c_valid), .m_ready(c_ready),
      .m_item({c_err, c_eof, c_bytes, c_data}));
  pipeline_front #(.FUNCTIONS(FUNCTIONS), .LOAD_CYCLES(LOAD_CYCLES)) u_front (
      .clk, .rst, .s_valid(c_valid), .s_ready(c_ready), .s_data(c_data), .s_eof(c_eof), .s_bytes(c_bytes), .s_err(c_err),
      .j_valid(f_valid), .j_ready(f_ready), .j_data(f_data), .j_bytes(f_bytes), .j_last(f_last), .look,
      .look_fill, .look_off, .fin_valid, .fin_ready, .fin_frame, .fin_to_mac, .fin_status, .map_write, .map_spi, .map_index,
      .page_begin, .page_write, .page, .page_word,
      .rule_clear, .rule_accept, .rule_write, .rule_number, .rule_word, .rule_data, .slot_active);
  // Keeps what the function gives, and what it waits for, apart from the joiner.
  skid #(.WIDTH(69)) u_skid (
      .clk, .rst, .s_valid(f_valid), .s_ready(f_ready), .s_item({f_last, f_bytes, f_data}), .m_valid(j_valid), .m_ready(j_ready),
      .m_item({j_last, j_bytes, j_data}));
  stream_join u_join (
      .clk, .rst, .s_valid(j_valid), .s_ready(j_ready), .s_data(j_data), .s_bytes(j_bytes), .s_last(j_last), .s_err(1'b0),
      .m_valid(w_valid), .m_ready(w_ready), .m_data(w_data), .m_sof(w_sof), .m_eof(w_eof), .m_bytes(w_bytes), .m_err());
  pipeline_tail #(.DEPTH_LOG2(DEPTH_LOG2)) u_tail (
      .clk, .rst, .s_valid(w_valid), .s_ready(w_ready), .s_data(w_data), .s_sof(w_sof), .s_eof(w_eof), .s_bytes(w_bytes), .look,
      .look_fill, .look_off, .fin_valid, .fin_ready, .fin_frame, .fin_to_mac, .fin_status,
      .page_begin, .page_write, .page, .page_word, .rule_clear, .rule_accept, .rule_write,
      .rule_number, .rule_word, .rule_data, .m_valid(t_valid), .m_ready(t_ready), .m_data(t_data), .m_sof(t_sof), .m_eof(t_eof),
      .m_bytes(t_bytes), .m_err(t_err), .m_to_mac(t_to_mac));
  skid #(.WIDTH(72)) u_out (
      .clk, .rst, .s_valid(t_valid), .s_ready(t_ready), .s_item({t_to_mac, t_err, t_sof, t_eof, t_bytes, t_data}), .m_valid, .m_ready,
      .m_item({m_to_mac, m_err, m_sof, m_eof, m_bytes, m_data}));
endmodule
