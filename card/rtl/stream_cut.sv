// Hands a frame out in pieces of any 1 to 8 bytes: the counterpart of stream_join. The next bytes
// stand in `head`, `avail` says how many (0 to 24; more than 8 are there but not shown; what stands
// above has no meaning). With `go`, `want` bytes go at the next clock; at a frame's end, where
// fewer may be left, all of them. `there`: eight bytes, or the frame's last ones, which is known
// early in the clock. `full`: `want` bytes are there. `want` may come early and `go` late in the
// clock. `ended`: nothing follows what is there. The next frame comes in once this one is all
// taken.
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
    output logic        there,
    output logic        full,
    input  logic [3:0]  want, // 8 at most
    input  logic        go // not unless `full` or `ended`
);
  logic [191:0] kept, joined, after;
  logic [63:0]  turned; // the new word, its first byte where the kept ones end
  logic [4:0]   left, sum, rest;
  logic         accept;
  assign head = kept[63:0];
  assign accept = s_valid && s_ready;
  // Two words of room: with one and any alignment, every second clock would be lost.
  assign s_ready = !ended && avail <= 5'd16;

  // The new word is joined and the piece cut off before it is known whether it goes. Where fewer
  // than `want` bytes are left, none stays, and what is kept has no meaning.
  always_comb begin
    turned = 64'({s_data, s_data} << {avail[2:0], 3'b000} >> 64);
    for (int i = 0; i < 24; i++) joined[8*i +: 8] = 5'(i) < avail ? kept[8*i +: 8] : turned[8*(i%8) +: 8];
  end
  assign after = joined >> {want, 3'b000};
  assign there = avail[4:3] != '0 || ended;
  assign full = avail[4:3] != '0 || (!want[3] && avail[2:0] >= want[2:0]);
  assign sum = avail + (accept ? {1'b0, s_bytes} : 5'd0);
  assign rest = full ? sum - {1'b0, want} : 5'd0;
  assign left = go ? rest : sum;

  always_ff @(posedge clk) begin
    kept <= go ? after : joined;
    if (rst) begin
      avail <= '0;
      ended <= 1'b0;
      err <= 1'b0;
    end else begin
      avail <= left;
      if (accept) begin
        ended <= s_eof;
        err <= s_eof && s_err;
      end else if (ended && (go ? avail <= {1'b0, want} : avail == '0)) ended <= 1'b0;
    end
  end
endmodule
