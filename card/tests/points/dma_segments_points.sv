// What the tests of rings and tables must have met.
module dma_segments_points (
    input logic clk,
    input logic rst,
    input logic on, rd_valid,
    input logic [2:0] state,
    input logic [15:0] head, tail, length,
    input logic [7:0] count,
    input logic table_used,
    input logic [31:0] addr,
    input logic [63:0] rd_data
);
  off_with_work : cover property (@(posedge clk) !rst && !on && head != tail);
  table_of_255 : cover property (@(posedge clk) !rst && state == 3'd3 && table_used && count == 8'd255);
  table_of_one : cover property (@(posedge clk) !rst && state == 3'd3 && table_used && count == 8'd1);
  table_of_none : cover property (@(posedge clk) !rst && state == 3'd3 && table_used && count == '0);
  table_misplaced : cover property (@(posedge clk) !rst && state == 3'd3 && table_used && addr[2:0] != '0);
  buffer_of_none : cover property (@(posedge clk) !rst && state == 3'd3 && !table_used && length == '0);
  entry_of_none : cover property (@(posedge clk) !rst && state == 3'd5 && rd_valid && rd_data[47:32] == '0);
  buffer_of_one_byte : cover property (@(posedge clk) !rst && state == 3'd5 && rd_valid && rd_data[47:32] == 16'd1);
endmodule
bind dma_segments dma_segments_points u_points (.*);
