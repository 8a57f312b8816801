// Makes any sequence of words a sequence of whole frames: behind it each frame is sof ... eof. A
// word outside a frame is dropped; a frame that the next one cuts off ends with eof and err; full
// words inside a frame. A word is held until the next is seen, for only then is it known whether
// the frame was cut off.
module frame_guard (
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
    output logic [15:0] unframed_words, // words dropped because no frame was open
    output logic [15:0] cuts    // frames ended by the next one's start
);
  logic        held;
  logic [63:0] held_data;
  logic        held_sof, held_eof, held_err;
  logic [3:0]  held_bytes;
  logic        short; // a word that was not the last had fewer than 8 bytes
  logic        open; // a frame began and its eof was not yet taken in

  logic unframed, cut, move;
  assign unframed = !open && !s_sof;
  assign cut = open && s_sof;
  // The held word leaves when it ends its frame by itself, or when its successor is here.
  assign m_valid = held && (held_eof || s_valid);
  assign move = m_valid && m_ready;
  assign s_ready = !held || m_ready;
  assign m_data = held_data;
  assign m_sof = held_sof;
  assign m_eof = held_eof || (s_valid && cut);
  assign m_bytes = m_eof && held_bytes != 4'd0 && held_bytes < 4'd9 ? held_bytes : 4'd8;
  assign m_err = held_err || (s_valid && cut && !held_eof);

  always_ff @(posedge clk) begin
    if (rst) begin
      held <= 1'b0;
      open <= 1'b0;
      unframed_words <= '0;
      cuts <= '0;
    end else begin
      if (move) held <= 1'b0;
      if (s_valid && s_ready) begin
        if (unframed) unframed_words <= unframed_words + 1'b1;
        else begin
          held <= 1'b1;
          open <= !s_eof;
          if (cut) cuts <= cuts + 1'b1;
        end
      end
    end
    if (s_valid && s_ready && !unframed) begin
      held_data <= s_data;
      held_sof <= s_sof;
      held_eof <= s_eof;
      held_bytes <= s_bytes;
      // A short word inside a frame is broken framing as well: the bytes that are missing are not
      // known.
      held_err <= s_eof && (s_err || s_bytes == 4'd0 || s_bytes > 4'd8 || (!s_sof && short));
      short <= (!s_sof && short) || s_bytes != 4'd8;
    end
  end
endmodule
