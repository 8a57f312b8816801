// Which headers from the wire the tests must have met.
module parser_points (
    input logic clk,
    input logic rst,
    input logic [2:0]  state,
    input logic [1:0]  phase,
    input logic [3:0]  count,
    input logic        v6, sound, fragment, udp_esp, is_esp, mapped, enough, set_here, ip, m_valid, m_ready,
    input logic [3:0]  ihl,
    input logic [7:0]  protocol,
    input logic [15:0] esp_end, total,
    input logic [6:0]  esp_off
);
  localparam logic [2:0] JUDGE = 2, PREFIX = 3;
  logic judged, known;
  assign judged = !rst && state == JUDGE && phase == 2'd3;
  assign known = !rst && state == PREFIX && m_valid;
  bare_v4 : cover property (@(posedge clk) known && mapped && !v6 && !udp_esp);
  bare_v6 : cover property (@(posedge clk) known && mapped && v6 && !udp_esp);
  in_udp_v4 : cover property (@(posedge clk) known && mapped && !v6 && udp_esp);
  in_udp_v6 : cover property (@(posedge clk) known && mapped && v6 && udp_esp);
  options_before_it : cover property (@(posedge clk) known && mapped && !v6 && ihl == 4'd15);
  esp_of_no_sa_v4 : cover property (@(posedge clk) known && !mapped && is_esp && !v6);
  esp_of_no_sa_v6 : cover property (@(posedge clk) known && !mapped && is_esp && v6);
  udp_of_another_port_v6 : cover property (@(posedge clk) judged && v6 && protocol == 8'd17 && !udp_esp);
  extension_header : cover property (@(posedge clk) judged && v6 && (protocol == 8'd0 || protocol == 8'd43 || protocol == 8'd44 || protocol == 8'd60));
  fragment_v4 : cover property (@(posedge clk) judged && fragment);
  other_version : cover property (@(posedge clk) judged && ip && !sound);
  cut_before_the_spi : cover property (@(posedge clk) judged && is_esp && !enough);
  cut_before_the_spi_v6 : cover property (@(posedge clk) judged && is_esp && v6 && !enough);
  length_that_wraps_v6 : cover property (@(posedge clk) judged && is_esp && v6 && total > 16'hffc9 && esp_end < 16'd66);
  nothing_behind_the_header : cover property (@(posedge clk) judged && is_esp && enough && {9'b0, esp_off} + 16'd12 >= esp_end);
endmodule
bind parser parser_points u_points (.*);
