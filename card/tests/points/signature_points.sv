// What the tests of the signatures must have met.
module signature_points (
    input logic clk,
    input logic rst,
    input logic page_begin, page_write, enable, loaded, start, ready, done, hit,
    input logic [1:0] page,
    input logic [7:0] number
);
  for (genvar n = 0; n < 4; n++) begin : g_page
    is_written : cover property (@(posedge clk) !rst && page_write && page == 2'(n));
  end
  set_is_replaced : cover property (@(posedge clk) !rst && page_begin && loaded);
  packet_before_there_is_a_set : cover property (@(posedge clk) !rst && start && enable && !loaded);
  packet_that_is_not_searched : cover property (@(posedge clk) !rst && start && !enable && loaded);
  packet_waits_for_the_search : cover property (@(posedge clk) !rst && enable && !ready);
  first_rule_hits : cover property (@(posedge clk) !rst && enable && done && hit && number == 8'd1);
  last_rule_hits : cover property (@(posedge clk) !rst && enable && done && hit && number == 8'd32);
  no_rule_hits : cover property (@(posedge clk) !rst && enable && loaded && done && !hit);
endmodule
bind signature signature_points u_points (.*);
