// A queue in block RAM, whose slow output goes into a register at once. The oldest entry stands at
// the output (three clocks after it was written, at the earliest); an entry a clock in and out.
// Holds 2^DEPTH_LOG2 entries and one more in the output register.
module fifo #(
    parameter int WIDTH = 64,
    parameter int DEPTH_LOG2 = 4
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             s_valid,
    output logic             s_ready,
    input  logic [WIDTH-1:0] s_item,
    output logic             m_valid,
    input  logic             m_ready,
    output logic [WIDTH-1:0] m_item,
    output logic [DEPTH_LOG2:0] level // entries that are not at the output yet
);
  // What is read while it is written is not used, so synthesis need not preserve the old value.
  (* no_rw_check *) logic [WIDTH-1:0] mem[0:(1 << DEPTH_LOG2) - 1];
  logic [WIDTH-1:0] q; // the RAM's own output
  // What has been read into `q` keeps its place in the RAM until it leaves `q`: `rd` follows
  // `fetched`.
  logic [DEPTH_LOG2:0] wr, rd, fetched;
  logic q_valid, move, fetch;

  assign level = wr - rd;
  assign s_ready = !level[DEPTH_LOG2];
  assign move = !m_valid || m_ready;
  assign fetch = !q_valid || move;

  always_ff @(posedge clk) begin
    if (s_valid && s_ready) mem[wr[DEPTH_LOG2-1:0]] <= s_item;
    if (fetch) q <= mem[fetched[DEPTH_LOG2-1:0]];
  end

  always_ff @(posedge clk) begin
    if (move) m_item <= q;
    if (rst) begin
      wr <= '0;
      rd <= '0;
      fetched <= '0;
      q_valid <= 1'b0;
      m_valid <= 1'b0;
    end else begin
      if (s_valid && s_ready) wr <= wr + 1'b1;
      if (fetch) begin
        q_valid <= fetched != wr;
        if (fetched != wr) fetched <= fetched + 1'b1;
      end
      if (move) begin
        m_valid <= q_valid;
        if (q_valid) rd <= rd + 1'b1;
      end
    end
  end
endmodule
