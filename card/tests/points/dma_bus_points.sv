// What the tests of the bus must have met.
module dma_bus_points (
    input logic clk,
    input logic rst,
    input logic [2:0] req_valid,
    input logic busy, bus_cmd_valid, bus_cmd_ready, transmit_pressed, receive_pressed, last_receive
);
  all_three_ask : cover property (@(posedge clk) !rst && !busy && req_valid == 3'b111);
  receive_is_pressed : cover property (@(posedge clk) !rst && !busy && req_valid == 3'b011 && receive_pressed);
  transmit_is_pressed : cover property (@(posedge clk) !rst && !busy && req_valid == 3'b011 && transmit_pressed && !receive_pressed);
  turn_of_transmit : cover property (@(posedge clk) !rst && !busy && req_valid == 3'b011 && !transmit_pressed && !receive_pressed && last_receive);
  turn_of_receive : cover property (@(posedge clk) !rst && !busy && req_valid == 3'b011 && !transmit_pressed && !receive_pressed && !last_receive);
  host_does_not_take_the_command : cover property (@(posedge clk) !rst && bus_cmd_valid && !bus_cmd_ready);
endmodule
bind dma_bus dma_bus_points u_points (.*);
