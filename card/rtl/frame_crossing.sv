// frame_buffer between two clocks that know nothing of one another: frames enter in `s_clk` and
// leave in `m_clk`. What crosses are two counts: the frames that were kept, and the words that were
// read. A frame is seen only when it is whole, so its words come without a pause of the writer's,
// whatever the ratio of the clocks: one in two clocks of `m_clk`. Both resets must last for four
// cycles of the slower clock, at the same time.
module frame_crossing #(
    parameter int WIDTH = 68, // a word beside its eof
    parameter int DEPTH_LOG2 = 11,
    parameter bit WAIT = 1
) (
    input  logic             s_clk,
    input  logic             s_rst,
    input  logic             s_valid,
    output logic             s_ready,
    input  logic [WIDTH-1:0] s_word,
    input  logic             s_eof,
    output logic             whole,
    output logic             overflow,
    input  logic             judge,
    input  logic             keep,
    input  logic             m_clk,
    input  logic             m_rst,
    output logic             m_valid,
    input  logic             m_ready,
    output logic [WIDTH-1:0] m_word,
    output logic             m_sof,
    output logic             m_eof
);
  logic [WIDTH:0] mem[0:(1 << DEPTH_LOG2) - 1];
  logic [DEPTH_LOG2:0] rd_seen, frames_seen, taken;
  // verilator lint_off UNUSEDSIGNAL
  logic [DEPTH_LOG2:0] rd; // its highest bit is for the other side
  // verilator lint_on UNUSEDSIGNAL
  logic [DEPTH_LOG2-1:0] place;
  logic store;
  // verilator lint_off PINCONNECTEMPTY
  frame_intake #(.DEPTH_LOG2(DEPTH_LOG2), .WAIT(WAIT)) u_intake (
      .clk(s_clk), .rst(s_rst), .s_valid, .s_ready, .s_eof, .whole, .overflow, .judge, .keep, .rd(rd_seen), .store, .place, .kept());
  // A frame has a word at least, so a count of words is wide enough for one of frames.
  count_crossing #(.WIDTH(DEPTH_LOG2 + 1)) u_frames (
      .clk(s_clk), .rst(s_rst), .step(judge && keep), .count(), .to_clk(m_clk), .to_rst(m_rst), .seen(frames_seen));
  // verilator lint_on PINCONNECTEMPTY
  count_crossing #(.WIDTH(DEPTH_LOG2 + 1)) u_read (
      .clk(m_clk), .rst(m_rst), .step(fetch), .count(rd), .to_clk(s_clk), .to_rst(s_rst), .seen(rd_seen));
  always_ff @(posedge s_clk) if (store) mem[place] <= {s_eof, s_word};

  // The RAM's output is slow: it goes into a register before it is known whether the frame ends.
  logic [WIDTH:0] q;
  logic q_valid, begun, fetch, move;
  assign fetch = !q_valid && (begun || frames_seen != taken);
  assign move = q_valid && (!m_valid || m_ready);
  always_ff @(posedge m_clk) begin
    if (fetch) q <= mem[rd[DEPTH_LOG2-1:0]];
    if (move) {m_eof, m_word} <= q;
    if (m_rst) begin
      q_valid <= 1'b0;
      begun <= 1'b0;
      taken <= '0;
      m_valid <= 1'b0;
      m_sof <= 1'b1;
    end else begin
      if (fetch) q_valid <= 1'b1;
      if (m_ready) m_valid <= 1'b0;
      if (move) begin
        q_valid <= 1'b0;
        m_valid <= 1'b1;
        m_sof <= !begun;
        begun <= !q[WIDTH];
        if (q[WIDTH]) taken <= taken + 1'b1;
      end
    end
  end
endmodule
