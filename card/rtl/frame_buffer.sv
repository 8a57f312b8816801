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
  // eof, bytes, data. What is read while it is written is not used.
  (* no_rw_check *) logic [68:0] mem[0:(1 << DEPTH_LOG2) - 1];
  logic [DEPTH_LOG2:0] kept, rd;
  logic [DEPTH_LOG2-1:0] place;
  logic store;
  frame_intake #(.DEPTH_LOG2(DEPTH_LOG2), .WAIT(WAIT)) u_intake (
      .clk, .rst, .s_valid, .s_ready, .s_eof, .whole, .overflow, .judge, .keep, .rd, .store, .place, .kept);

  // The RAM's output is slow: it goes into a register at once.
  logic [68:0] q, item;
  logic        q_valid, move, fetch, first;
  assign move = !m_valid || m_ready;
  assign fetch = !q_valid || move;
  assign {m_eof, m_bytes, m_data} = item;
  assign m_sof = first;

  always_ff @(posedge clk) begin
    if (store) mem[place] <= {s_eof, s_bytes, s_data};
    if (fetch) q <= mem[rd[DEPTH_LOG2-1:0]];
  end

  always_ff @(posedge clk) begin
    if (move) item <= q;
    if (rst) begin
      rd <= '0;
      q_valid <= 1'b0;
      m_valid <= 1'b0;
      first <= 1'b1;
    end else begin
      if (m_valid && m_ready) first <= m_eof;
      if (move) m_valid <= q_valid;
      if (fetch) begin
        q_valid <= rd != kept;
        if (rd != kept) rd <= rd + 1'b1;
      end
    end
  end
endmodule
