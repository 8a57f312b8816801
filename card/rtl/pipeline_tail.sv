// The second half of X1 and X2: holds the finished frame until all is known of it (ICV, checksums,
// filter, signatures), then sends it to the host behind a status, or to the MAC bare, or drops it
// and sends the host the status alone.
// verilator lint_off PINCONNECTEMPTY
module pipeline_tail #(
    parameter int DEPTH_LOG2 = 11
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         s_valid, // from stream_join
    output logic         s_ready,
    input  logic [63:0]  s_data,
    input  logic         s_sof,
    input  logic         s_eof,
    input  logic [3:0]   s_bytes,
    input  logic [3:0]   look,
    input  logic         look_fill,
    input  logic [13:0]  look_off,
    input  logic         fin_valid,
    output logic         fin_ready,
    input  logic         fin_frame,
    input  logic         fin_to_mac,
    input  logic [127:0] fin_status,
    input  logic         rule_clear,
    input  logic         rule_accept,
    input  logic         rule_write,
    input  logic [3:0]   rule_number,
    input  logic [3:0]   rule_word,
    input  logic [63:0]  rule_data,
    input  logic         page_begin, // the signatures' tables; the data is rule_data
    input  logic         page_write,
    input  logic [1:0]   page,
    input  logic [9:0]   page_word,
    output logic         m_valid,
    input  logic         m_ready,
    output logic [63:0]  m_data,
    output logic         m_sof,
    output logic         m_eof,
    output logic [3:0]   m_bytes,
    output logic         m_err,
    output logic         m_to_mac
);
  localparam logic [7:0] OK = 0, NO_SA = 2, NO_FUNCTION = 3, MALFORMED = 4, FILTERED = 6;

  // ---- frame in, watched
  logic tap, tap_ready, b_ready, whole, overflow, judge, keep;
  logic f_valid, f_ready, f_eof;
  logic [63:0] f_data;
  logic [3:0] f_bytes;
  assign s_ready = b_ready && tap_ready;
  assign tap = s_valid && s_ready;
  frame_buffer #(.DEPTH_LOG2(DEPTH_LOG2)) u_buffer (
      .clk, .rst, .s_valid(s_valid && tap_ready), .s_ready(b_ready), .s_data, .s_eof, .s_bytes, .whole, .overflow, .judge, .keep,
      .m_valid(f_valid), .m_ready(f_ready), .m_data(f_data), .m_sof(), .m_eof(f_eof), .m_bytes(f_bytes));

  logic        look_done, accept, hit;
  logic        ip_right, udp_right, ip_wrong, udp_wrong, ip_fix, udp_fix;
  logic [13:0] ip_fix_at, udp_fix_at;
  logic [15:0] ip_fix_value, udp_fix_value;
  logic [7:0]  rule, signature;
  inspect u_inspect (
      .clk, .rst, .tap, .tap_ready, .data(s_data), .sof(s_sof), .eof(s_eof), .bytes(s_bytes), .look_ip(look[0]), .look_udp(look[1]),
      .look_signature(look[3]), .fill(look_fill), .off(look_off),
      .page_begin, .page_write, .page, .page_word,
      .rule_clear, .rule_accept, .rule_write, .rule_number, .rule_word, .rule_data, .done(look_done), .ip_right, .udp_right, .ip_wrong, .udp_wrong, .ip_fix, .ip_fix_at, .ip_fix_value,
      .udp_fix, .udp_fix_at, .udp_fix_value, .accept, .rule, .hit, .signature);

  logic [14:0] length; // up to all of the buffer; of a longer frame it has no meaning
  always_ff @(posedge clk) if (tap) length <= (s_sof ? 15'd0 : length) + {11'b0, s_bytes};

  // ---- verdict
  logic [7:0]  code;
  logic        from_mac, passes, deliver;
  assign from_mac = fin_status[14];
  // What the card could not open goes up as it came, unless the filter drops it.
  assign passes = fin_frame && !overflow
      && (fin_status[7:0] == OK || (from_mac && (fin_status[7:0] == NO_SA || fin_status[7:0] == NO_FUNCTION)));
  assign deliver = passes && !(look[2] && !accept);
  assign code = passes && !deliver ? FILTERED : fin_status[7:0] != OK ? fin_status[7:0]
      : fin_frame && overflow ? MALFORMED : OK;
  assign fin_ready = q_ready && (!fin_frame || (whole && look_done));
  assign judge = fin_valid && fin_ready && fin_frame;
  assign keep = deliver;

  logic [127:0] status;
  always_comb begin
    status = fin_status;
    status[7:0] = code;
    if (fin_frame) begin
      status[9] = look[0] && ip_right;
      status[10] = look[1] && udp_right;
      status[11] = look[2] && accept;
      status[12] = look[3] && hit;
      // With bit 1 or 2 clear, which of the two is wrong.
      status[15] = ip_wrong || udp_wrong;
      status[23:16] = look[3] && hit ? signature : 8'd0;
      status[31:24] = look[2] ? rule : 8'hff;
    end
    status[63:48] = deliver ? {1'b0, length} : 16'd0;
  end

  // ---- queue of verdicts: a frame in the buffer has its entry here
  logic         q_ready, v_valid, v_ready, v_frame, v_to_mac, v_ip_fix, v_udp_fix;
  logic [127:0] v_status;
  logic [13:0]  v_ip_at, v_udp_at;
  logic [15:0]  v_ip_value, v_udp_value;
  fifo #(.WIDTH(192), .DEPTH_LOG2(5)) u_verdicts (
      .clk, .rst, .s_valid(fin_valid && fin_ready), .s_ready(q_ready),
      .s_item({deliver, fin_to_mac && deliver, ip_fix && deliver, ip_fix_at, ip_fix_value, udp_fix && deliver, udp_fix_at, udp_fix_value,
               status}),
      .m_valid(v_valid), .m_ready(v_ready),
      .m_item({v_frame, v_to_mac, v_ip_fix, v_ip_at, v_ip_value, v_udp_fix, v_udp_at, v_udp_value, v_status}), .level());

  // ---- out: two words of status unless to the MAC, then the frame, with the checksums put in as
  // their words pass
  localparam logic [1:0] STATUS0 = 0, STATUS1 = 1, FRAME = 2;
  logic [1:0]  state;
  logic [10:0] at;
  logic        in_frame;
  assign in_frame = state == FRAME || (state == STATUS0 && v_to_mac);
  assign m_err = 1'b0;
  assign m_to_mac = v_to_mac;
  assign f_ready = m_ready && v_valid && in_frame;
  assign v_ready = m_valid && m_ready && m_eof;
  always_comb begin
    m_valid = v_valid && (!in_frame || f_valid);
    m_sof = state == STATUS0;
    m_eof = in_frame ? f_eof : state == STATUS1 && !v_frame;
    m_bytes = in_frame ? f_bytes : 4'd8;
    m_data = in_frame ? f_data : state == STATUS0 ? v_status[63:0] : v_status[127:64];
    for (int i = 0; i < 4; i++) begin
      if (in_frame && v_ip_fix && {at, 2'(i), 1'b0} == v_ip_at) m_data[16*i +: 16] = v_ip_value;
      if (in_frame && v_udp_fix && {at, 2'(i), 1'b0} == v_udp_at) m_data[16*i +: 16] = v_udp_value;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      state <= STATUS0;
      at <= '0;
    end else if (m_valid && m_ready) begin
      at <= in_frame && !m_eof ? at + 1'b1 : '0;
      if (m_eof) state <= STATUS0;
      else if (in_frame) state <= FRAME;
      else state <= state == STATUS0 ? STATUS1 : FRAME;
    end
  end
endmodule
