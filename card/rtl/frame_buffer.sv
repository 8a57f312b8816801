// Stores whole frames and lets each out only when its owner has judged it: once the frame is
// `whole`, `judge` with `keep` passes it on, without `keep` it vanishes. Between the end and the
// judgement no word is taken in. A frame that does not fit is swallowed and must be judged with
// `keep` low; `overflow` says so from then to the judgement. When WAIT is 1 it waits for room while
// older frames leave, and only a frame larger than all the RAM overflows.
module frame_buffer #(
    parameter int DEPTH_LOG2 = 11, // words of 8 bytes
    parameter bit WAIT = 1
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic        s_eof,
    input  logic [3:0]  s_bytes,
    output logic        whole, // the frame's last word is in
    output logic        overflow,
    input  logic        judge,
    input  logic        keep,
    output logic        m_valid,
    input  logic        m_ready,
    output logic [63:0] m_data,
    output logic        m_sof,
    output logic        m_eof,
    output logic [3:0]  m_bytes
);
  logic [68:0] mem[0:(1 << DEPTH_LOG2) - 1]; // eof, bytes, data
  logic [DEPTH_LOG2:0] wr, kept, rd;
  // Both may be a clock late in saying that there is room, but not in saying that there is none.
  logic full, alone; // alone: nothing older is left that could make room
  logic store;
  localparam logic [DEPTH_LOG2:0] ALL = (DEPTH_LOG2 + 1)'(1 << DEPTH_LOG2);
  assign s_ready = !whole && (!full || overflow || !WAIT || alone);
  assign store = s_valid && s_ready && !full && !overflow;

  // The RAM's output is slow: it goes into a register at once.
  logic [68:0] q, item;
  logic        q_valid, move, fetch, first;
  assign move = !m_valid || m_ready;
  assign fetch = !q_valid || move;
  assign {m_eof, m_bytes, m_data} = item;
  assign m_sof = first;

  always_ff @(posedge clk) begin
    if (store) mem[wr[DEPTH_LOG2-1:0]] <= {s_eof, s_bytes, s_data};
    if (fetch) q <= mem[rd[DEPTH_LOG2-1:0]];
  end

  always_ff @(posedge clk) begin
    if (move) item <= q;
    if (rst) begin
      wr <= '0;
      kept <= '0;
      rd <= '0;
      whole <= 1'b0;
      overflow <= 1'b0;
      full <= 1'b0;
      alone <= 1'b0;
      q_valid <= 1'b0;
      m_valid <= 1'b0;
      first <= 1'b1;
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
      if (m_valid && m_ready) first <= m_eof;
      if (move) m_valid <= q_valid;
      if (fetch) begin
        q_valid <= rd != kept;
        if (rd != kept) rd <= rd + 1'b1;
      end
    end
  end
endmodule
