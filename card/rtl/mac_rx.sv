// Takes frames from a GMII: finds the start, checks length (64 to MAX_BYTES with FCS) and FCS,
// removes the FCS, and hands on only whole, sound frames; the wire gives a byte in each cycle of
// `mac_clk`, and the buffer brings frames to `clk`. The wire cannot wait: a frame that finds the
// buffer full is dropped and counted.
// verilator lint_off PINCONNECTEMPTY
module mac_rx #(
    parameter int DEPTH_LOG2 = 11,
    parameter int MAX_BYTES  = 9022
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        mac_clk,
    input  logic        mac_rst,
    input  logic [7:0]  gmii_rxd,
    input  logic        gmii_rx_dv,
    input  logic        gmii_rx_er,
    output logic        m_valid,
    input  logic        m_ready,
    output logic [63:0] m_data,
    output logic        m_sof,
    output logic        m_eof,
    output logic [3:0]  m_bytes,
    // Of `mac_clk`, high for a cycle:
    output logic        received,
    output logic        broken,  // FCS, length or rx_er
    output logic        overrun  // no room
);
  logic        in_frame, seen; // seen: the start byte has passed
  logic [31:0] crc, crc_next, delay; // the last four bytes are held back: they may be the FCS
  logic [13:0] length;
  logic        er, skip;
  // The wire as it was a clock ago.
  logic [7:0]  rxd;
  logic        rx_dv, rx_er;
  always_ff @(posedge mac_clk) {rxd, rx_dv, rx_er} <= {gmii_rxd, gmii_rx_dv && !mac_rst, gmii_rx_er};
  crc32 u_crc (.crc(crc), .data(rxd), .next(crc_next));

  // Words for the buffer: one is written when a byte follows it or the frame ends, so that eof is
  // known.
  logic [63:0] word;
  logic [3:0]  word_bytes;
  logic        w_valid, w_eof;
  logic        whole, overflow, sound;
  frame_crossing #(.DEPTH_LOG2(DEPTH_LOG2), .WAIT(0)) u_buffer (
      .s_clk(mac_clk), .s_rst(mac_rst), .s_valid(w_valid), .s_ready(), .s_word({word_bytes, word}), .s_eof(w_eof),
      .whole, .overflow, .judge(whole), .keep(sound && !overflow),
      .m_clk(clk), .m_rst(rst), .m_valid, .m_ready, .m_word({m_bytes, m_data}), .m_sof, .m_eof);

  logic body, ending, ended, good;
  assign good = !er && !skip && crc == 32'hdebb_20e3 && length >= 14'd64 && length <= 14'(MAX_BYTES);
  assign body = rx_dv && seen && in_frame;
  assign ending = !rx_dv && in_frame;
  assign w_eof = ending;
  // A frame that is not stored to its end still gets one, so that the buffer can drop it.
  assign w_valid = word_bytes != 4'd0 && (ending || (!skip && body && length >= 14'd4 && word_bytes == 4'd8));
  assign received = whole && sound && !overflow;
  assign overrun = whole && overflow;
  assign broken = ended && !sound;

  always_ff @(posedge mac_clk) begin
    if (mac_rst) begin
      in_frame <= 1'b0;
      seen <= 1'b0;
      word_bytes <= '0;
      skip <= 1'b0;
      sound <= 1'b0;
      ended <= 1'b0;
    end else begin
      in_frame <= rx_dv;
      if (!rx_dv) begin
        seen <= 1'b0;
        word_bytes <= '0;
        length <= '0;
        crc <= '1;
        er <= 1'b0;
        skip <= 1'b0;
      end else begin
        er <= er || rx_er;
        if (in_frame && !seen && rxd == 8'hd5) seen <= 1'b1;
      end
      if (body) begin
        crc <= crc_next;
        delay <= {rxd, delay[31:8]};
        if (length != '1) length <= length + 1'b1;
        if (length >= 14'd4) begin
          word[8*word_bytes[2:0] +: 8] <= delay[7:0];
          word_bytes <= word_bytes == 4'd8 ? 4'd1 : word_bytes + 1'b1;
        end
        // The rest of an endless frame is not even stored.
        if (length == 14'(MAX_BYTES + 8)) skip <= 1'b1;
      end
      if (ending) sound <= good;
      ended <= ending;
    end
  end
endmodule
