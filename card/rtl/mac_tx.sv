// Sends frames on a GMII: preamble, padding to 60 bytes, FCS, gap of 12; a byte in each cycle of
// `mac_clk`. A frame starts once it is whole in the buffer, for on the wire it cannot wait, and the
// buffer is where it comes to the wire's clock. A frame that arrives with `err` is dropped, and so
// is one above the buffer.
module mac_tx #(
    parameter int DEPTH_LOG2 = 11
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        mac_clk,
    input  logic        mac_rst,
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic        s_eof,
    input  logic [3:0]  s_bytes,
    input  logic        s_err,
    output logic [7:0]  gmii_txd,
    output logic        gmii_tx_en,
    output logic        gmii_tx_er,
    output logic        sent,   // of `mac_clk`, high for a frame's last byte
    output logic [31:0] dropped // of `clk`
);
  logic whole, overflow, broken;
  logic b_valid, b_ready, b_eof, b_sof;
  logic [63:0] b_data;
  logic [3:0] b_bytes;
  frame_crossing #(.DEPTH_LOG2(DEPTH_LOG2)) u_buffer (
      .s_clk(clk), .s_rst(rst), .s_valid, .s_ready, .s_word({s_bytes, s_data}), .s_eof, .whole, .overflow,
      .judge(whole), .keep(!overflow && !broken),
      .m_clk(mac_clk), .m_rst(mac_rst), .m_valid(b_valid), .m_ready(b_ready), .m_word({b_bytes, b_data}), .m_sof(b_sof), .m_eof(b_eof));

  always_ff @(posedge clk) begin
    if (s_valid && s_ready && s_eof) broken <= s_err;
    if (rst) dropped <= '0;
    else if (whole && (overflow || broken)) dropped <= dropped + 1'b1;
  end

  localparam logic [2:0] IDLE = 0, PREAMBLE = 1, BODY = 2, PAD = 3, FCS = 4, GAP = 5;
  logic [2:0]  state;
  logic [3:0]  count;  // of preamble, FCS and gap bytes
  logic [2:0]  lane;   // byte of the word
  logic [5:0]  length; // bytes sent, up to 60
  logic        last_lane;
  assign last_lane = {1'b0, lane} == b_bytes - 4'd1;
  assign b_ready = state == BODY && last_lane;
  assign gmii_tx_er = 1'b0;

  // A register between the choice of a byte and the FCS: all leaves a clock after `state` says.
  logic        now, now_body, now_fcs; // a byte of a frame, of its body, of its FCS
  logic [7:0]  now_byte;
  logic [31:0] crc, crc_next;
  crc32 u_crc (.crc(crc), .data(now_byte), .next(crc_next));
  always_ff @(posedge mac_clk) begin
    now <= state != IDLE && state != GAP && !mac_rst;
    now_body <= state == BODY || state == PAD;
    now_fcs <= state == FCS;
    now_byte <= state == BODY ? b_data[8*lane +: 8] : state != PREAMBLE ? 8'h00 : count == 4'd7 ? 8'hd5 : 8'h55;
    sent <= state == FCS && count == 4'd3 && !mac_rst;
    gmii_tx_en <= now && !mac_rst;
    gmii_txd <= !now ? 8'h00 : now_fcs ? ~crc[7:0] : now_byte;
    crc <= now_body ? crc_next : now_fcs ? crc >> 8 : '1;
  end

  always_ff @(posedge mac_clk) begin
    if (mac_rst) begin
      state <= IDLE;
    end else begin
      count <= count + 1'b1;
      case (state)
        IDLE: begin
          count <= '0;
          lane <= '0;
          length <= '0;
          if (b_valid && b_sof) state <= PREAMBLE;
        end
        PREAMBLE: if (count == 4'd7) state <= BODY;
        BODY, PAD: begin
          count <= '0;
          lane <= last_lane ? '0 : lane + 1'b1;
          if (length != 6'd60) length <= length + 1'b1;
          if (state == PAD || (last_lane && b_eof)) state <= length >= 6'd59 ? FCS : PAD;
        end
        FCS: if (count == 4'd3) begin
          state <= GAP;
          count <= '0;
        end
        default: if (count == 4'd10) state <= IDLE; // IDLE itself is the twelfth byte time of the gap
      endcase
    end
  end
endmodule
