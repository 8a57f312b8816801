// count_crossing with two clocks whose edges come in any order, and with registers that see each
// bit of a change as they like: `seen` goes through values of `count` in order, is never ahead of
// it, and comes up with it. The count is not given a lap: its owner stops before that.
module formal_count_crossing (
    input logic s_clk,
    input logic m_clk,
    input logic step
);
  localparam int WIDTH = 3;
  logic s_rst, m_rst, go;
  formal_resets resets (.s_clk, .m_clk, .s_rst, .m_rst);
  logic [WIDTH-1:0] count, seen, was_seen;
  assign go = step && count - seen != '1;
  count_crossing #(.WIDTH(WIDTH)) dut (
      .clk(s_clk), .rst(s_rst), .step(go), .count, .to_clk(m_clk), .to_rst(m_rst), .seen);

  // The same without wrapping, as far as the difference goes.
  logic [WIDTH:0] steps, passed, now;
  logic [WIDTH-1:0] gray, was_gray, change, advance;
  logic [2:0] still;
  logic [WIDTH-1:0] still_at;
  assign gray = dut_gray;
  assign change = gray ^ was_gray;
  assign advance = seen - was_seen;
  assign now = passed + {1'b0, advance};
  logic [WIDTH-1:0] dut_gray; // connected in the .sby file
  always_ff @(posedge s_clk) begin
    was_gray <= s_rst ? '0 : gray;
    steps <= s_rst ? '0 : steps + {3'b0, go};
  end
  always_ff @(posedge m_clk) begin
    was_seen <= m_rst ? '0 : seen;
    passed <= m_rst ? '0 : now;
    still <= m_rst || count != still_at ? '0 : {still[1:0], 1'b1};
    still_at <= count;
  end

  always_comb begin
    if (!s_rst && !m_rst) begin
      a_step_changes_one_bit : assert ((change & (change - 1'b1)) == '0);
      never_ahead_and_never_back : assert (steps - now < (WIDTH + 1)'(1 << WIDTH));
      if (still == '1 && count == still_at) comes_up_in_four_clocks : assert (seen == count);
    end
  end
endmodule
