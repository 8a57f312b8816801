// Hands a frame out in pieces of any 1 to 8 bytes: the counterpart of stream_join. The next bytes stand in `head`, `avail`
// says how many (0 to 24; more than 8 are there but not shown); `take` bytes go at the next clock, never more than
// min(avail, 8). `ended`: nothing follows what is there. The next frame comes in once this one is all taken.
module stream_cut (
    input  logic        clk,
    input  logic        rst,
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic        s_eof,
    input  logic [3:0]  s_bytes,
    input  logic        s_err,
    output logic [63:0] head,
    output logic [4:0]  avail,
    output logic        ended,
    output logic        err, // with `ended`
    input  logic [3:0]  take
);
  logic [191:0] kept;
  logic [4:0]   left;
  logic [191:0] after;
  assign head = kept[63:0];
  assign left = avail - {1'b0, take};
  assign after = kept >> {take, 3'b000};
  // Two words of room: with one and any alignment, every second clock would be lost.
  assign s_ready = !ended && avail <= 5'd16;

  logic [63:0] fresh;
  assign fresh = s_data & ~(64'hffff_ffff_ffff_ffff << {s_bytes, 3'b000});

  always_ff @(posedge clk) begin
    if (rst) begin
      avail <= '0;
      ended <= 1'b0;
      err <= 1'b0;
      kept <= '0;
    end else begin
      if (s_valid && s_ready) begin
        kept <= after | ({128'b0, fresh} << {left, 3'b000});
        avail <= left + {1'b0, s_bytes};
        ended <= s_eof;
        err <= s_eof && s_err;
      end else begin
        kept <= after;
        avail <= left;
        if (ended && left == '0) ended <= 1'b0;
      end
    end
  end
endmodule
