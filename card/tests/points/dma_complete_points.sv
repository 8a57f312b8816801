// What the tests of completions and interrupts must have met.
module dma_complete_points (
    input logic clk,
    input logic rst,
    input logic [15:0] mask, tail,
    input logic tx_valid, rx_valid, room, req_valid, req_ready, wr_valid, wr_ready, irq, phase,
    input logic [15:0] irq_count, waiting,
    input logic [31:0] irq_time, age
);
  logic [15:0] was_tail;
  always_ff @(posedge clk) was_tail <= rst ? 16'd0 : tail;
  ring_wraps : cover property (@(posedge clk) !rst && tail != was_tail && (tail & mask) == '0);
  second_lap : cover property (@(posedge clk) !rst && wr_valid && !phase);
  ring_full_and_one_waits : cover property (@(posedge clk) !rst && !room && (tx_valid || rx_valid));
  both_wait : cover property (@(posedge clk) !rst && tx_valid && rx_valid);
  bus_is_taken : cover property (@(posedge clk) !rst && req_valid && !req_ready);
  bus_pauses : cover property (@(posedge clk) !rst && wr_valid && !wr_ready);
  interrupt_by_count : cover property (@(posedge clk) !rst && irq_count != '0 && waiting >= irq_count);
  interrupt_by_time : cover property (@(posedge clk) !rst && irq_time != '0 && waiting != '0 && age >= irq_time);
  completion_while_interrupted : cover property (@(posedge clk) !rst && irq && tail != was_tail);
endmodule
bind dma_complete dma_complete_points u_points (.*);
