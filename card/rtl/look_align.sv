// Watches a frame's words and shows it again from byte `off` on, aligned: the headers then stand at
// fixed places. Takes no part in the handshake; a frame may give one word more after its eof, so
// the next must not begin at once.
module look_align (
    input  logic        clk,
    input  logic        rst,
    input  logic        tap,   // a word moves
    input  logic [63:0] data,
    input  logic        sof,
    input  logic        eof,
    input  logic [3:0]  bytes,
    input  logic [13:0] off,
    output logic        a_valid,
    output logic [63:0] a_data, // zero beyond a_bytes
    output logic [3:0]  a_bytes,
    output logic [10:0] a_word, // number of the word, from 0; of no meaning in frames that are longer than the buffer
    output logic        finished // pulse: the frame has been shown whole (perhaps nothing of it)
);
  logic [63:0] prev;
  logic [10:0] at, at_now;
  logic        extra;
  logic [3:0]  extra_bytes, sh;
  logic        past;
  logic [63:0] both;
  logic [63:0] masked;
  assign sh = {1'b0, off[2:0]};
  assign at_now = sof ? '0 : at;
  assign past = at_now > off[13:3];
  assign masked = data & ~(64'hffff_ffff_ffff_ffff << {bytes, 3'b000});
  assign both = 64'({masked, prev} >> {sh, 3'b000});

  always_ff @(posedge clk) begin
    a_valid <= 1'b0;
    finished <= 1'b0;
    if (rst) begin
      extra <= 1'b0;
      at <= '0;
      a_word <= '1;
    end else begin
      if (tap) begin
        prev <= masked;
        at <= at_now + 1'b1;
        if (sof) a_word <= '1;
        if (past) begin
          a_valid <= 1'b1;
          a_data <= both;
          a_bytes <= !eof || bytes >= sh ? 4'd8 : 4'd8 - sh + bytes;
          a_word <= a_word + 1'b1;
        end
        if (eof) begin
          extra <= at_now >= off[13:3] && bytes > sh;
          extra_bytes <= bytes - sh;
          finished <= !(at_now >= off[13:3] && bytes > sh);
        end
      end else if (extra) begin
        extra <= 1'b0;
        finished <= 1'b1;
        a_valid <= 1'b1;
        a_data <= prev >> {sh, 3'b000};
        a_bytes <= extra_bytes;
        a_word <= a_word + 1'b1;
      end
    end
  end
endmodule
