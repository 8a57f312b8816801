// The writing half of frame_buffer and frame_crossing: places of words in a RAM, and the judgement
// of whole frames. `rd` is how far the reader has read, or was some clocks ago.
module frame_intake #(
    parameter int DEPTH_LOG2 = 11,
    parameter bit WAIT = 1
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic                  s_valid,
    output logic                  s_ready,
    input  logic                  s_eof,
    output logic                  whole,
    output logic                  overflow,
    input  logic                  judge,
    input  logic                  keep,
    input  logic [DEPTH_LOG2:0]   rd,
    output logic                  store, // a word goes to `place`
    output logic [DEPTH_LOG2-1:0] place,
    output logic [DEPTH_LOG2:0]   kept   // end of the last frame that was kept
);
  logic [DEPTH_LOG2:0] wr;
  // Both may be a clock late in saying that there is room, but not in saying that there is none.
  logic full, alone; // alone: nothing older is left that could make room
  localparam logic [DEPTH_LOG2:0] ALL = (DEPTH_LOG2 + 1)'(1 << DEPTH_LOG2);
  assign s_ready = !whole && (!full || overflow || !WAIT || alone);
  assign store = s_valid && s_ready && !full && !overflow;
  assign place = wr[DEPTH_LOG2-1:0];

  always_ff @(posedge clk) begin
    if (rst) begin
      wr <= '0;
      kept <= '0;
      whole <= 1'b0;
      overflow <= 1'b0;
      full <= 1'b0;
      alone <= 1'b0;
    end else begin
      full <= wr - rd == (store ? ALL - 1'b1 : ALL);
      alone <= kept == rd && !judge;
      if (judge) begin
        whole <= 1'b0;
        overflow <= 1'b0;
        if (keep) kept <= wr;
        else wr <= kept;
      end else if (s_valid && s_ready) begin
        if (store) wr <= wr + 1'b1;
        else overflow <= 1'b1;
        whole <= s_eof;
      end
    end
  end
endmodule
