// fragment: whatever is cut, each frame behind it is sof ... eof with full words inside and one
// destination, a word that is offered stands, and a word that comes waits for headers only. With no
// MTU every word passes as it came, once and in order: one, chosen by the solver, is followed
// through, by its number and by one bit, since no bit's path depends on another.
module formal_fragment (
    input logic clk,
    input logic rst,
    input logic [15:0] mtu,
    input logic s_valid,
    input logic [63:0] s_data,
    input logic s_eof,
    input logic [3:0] s_bytes,
    input logic s_err,
    input logic s_to_mac,
    input logic m_ready,
    input logic [2:0] chosen
);
  localparam int LONGEST_PAUSE = 5;
  logic s_ready, m_valid, m_sof, m_eof, m_err, m_to_mac;
  logic [63:0] m_data;
  logic [3:0] m_bytes;
  logic [31:0] fragments;
  fragment dut (.clk, .rst, .mtu, .s_valid, .s_ready, .s_data, .s_eof, .s_bytes, .s_err, .s_to_mac, .m_valid, .m_ready, .m_data,
      .m_sof, .m_eof, .m_bytes, .m_err, .m_to_mac, .fragments);

  logic begun = 1'b0;
  logic [70:0] was_in, was_out, in_word, out_word;
  logic in_waits, out_waits, out_open, was_to_mac;
  logic [15:0] was_mtu;
  logic [2:0] was_chosen, pause;
  assign in_word = {s_data, s_eof, s_bytes, s_err, s_to_mac};
  assign out_word = {m_data, m_sof, m_eof, m_bytes, m_err};

  // The followed word, and how many words have come and gone, of which at most five are inside.
  logic [2:0] come, gone;
  logic       followed, bit0, ends;
  logic [3:0] bytes;
  always_ff @(posedge clk) begin
    begun <= 1'b1;
    in_waits <= !rst && s_valid && !s_ready;
    out_waits <= !rst && m_valid && !m_ready;
    was_in <= in_word;
    was_out <= out_word;
    was_mtu <= mtu;
    was_chosen <= chosen;
    pause <= rst || !s_valid || s_ready || m_valid ? '0 : pause + 1'b1;
    if (rst) begin
      out_open <= 1'b0;
      come <= '0;
      gone <= '0;
      followed <= 1'b0;
    end else begin
      if (m_valid && m_ready) begin
        out_open <= !m_eof;
        was_to_mac <= m_to_mac;
        gone <= gone + 1'b1;
        if (gone == chosen) followed <= 1'b0;
      end
      if (s_valid && s_ready) begin
        come <= come + 1'b1;
        if (come == chosen && !(m_valid && m_ready && gone == chosen)) begin
          followed <= 1'b1;
          {bit0, ends, bytes} <= {s_data[0], s_eof, s_bytes};
        end
      end
    end
  end

  always_comb begin
    assume (begun || rst);
    if (begun && !rst) begin
      assume (s_eof ? s_bytes >= 4'd1 && s_bytes <= 4'd8 : s_bytes == 4'd8);
      assume (mtu == was_mtu && chosen == was_chosen);
      assume (mtu == '0 || mtu >= 16'd68);
      if (in_waits) assume (s_valid && in_word == was_in);
      if (m_valid) begin
        frames_are_whole : assert (m_sof == !out_open);
        full_words_inside : assert (m_eof || m_bytes == 4'd8);
        bytes_are_possible : assert (m_bytes >= 4'd1 && m_bytes <= 4'd8);
        if (out_open) a_frame_has_one_destination : assert (m_to_mac == was_to_mac);
        if (mtu == '0 && gone == chosen && followed)
          passes_as_it_came_without_an_mtu : assert (m_data[0] == bit0 && m_eof == ends && m_bytes == bytes);
      end
      if (out_waits) offer_stands : assert (m_valid && out_word == was_out);
      pauses_for_a_header_at_most : assert (pause <= 3'(LONGEST_PAUSE));
    end
  end
endmodule
