// Which headers the tests of the filter must have met. What was read of a packet holds until the
// next one starts.
module ip_fields_points (
    input logic clk,
    input logic start, a_valid, version4, version6, has_ports, sound, walking, later, second, extension, at_next,
    input logic [63:0] a_data,
    input logic [3:0] a_bytes, ihl,
    input logic [7:0] protocol,
    input logic [10:0] a_word,
    input logic [16:0] header_end, packet_end,
    input logic [12:0] offset
);
  localparam logic [63:0] EXTENSIONS = {8'd0, 8'd43, 8'd44, 8'd51, 8'd60, 8'd135, 8'd139, 8'd140};
  localparam logic [7:0] TCP = 6, UDP = 17, FRAGMENT = 44;
  logic passed;
  assign passed = a_valid && version6 && at_next && extension && a_bytes == 4'd8;
  for (genvar n = 0; n < 8; n++) begin : g_extension
    passed_over : cover property (@(posedge clk) passed && protocol == EXTENSIONS[8*n +: 8]);
  end
  first_fragment_v6 : cover property (@(posedge clk) passed && protocol == FRAGMENT && offset == '0);
  later_fragment_v4 : cover property (@(posedge clk) start && version4 && later && sound);
  later_fragment_v6 : cover property (@(posedge clk) start && version6 && later && sound);
  fragment_into_tcp_s_header_v4 : cover property (@(posedge clk) start && version4 && second && protocol == TCP && !sound);
  fragment_into_tcp_s_header_v6 : cover property (@(posedge clk) start && version6 && second && protocol == TCP && !sound);
  ports_v4 : cover property (@(posedge clk) start && version4 && has_ports && sound && protocol == UDP);
  ports_v6 : cover property (@(posedge clk) start && version6 && has_ports && sound && protocol == UDP);
  ports_behind_all_options : cover property (@(posedge clk) start && version4 && has_ports && sound && ihl == 4'd15);
  ports_behind_extension_headers : cover property (@(posedge clk) start && version6 && has_ports && sound && header_end > 17'd48);
  without_ports_v4 : cover property (@(posedge clk) start && version4 && !has_ports && !sound && protocol == UDP);
  without_ports_v6 : cover property (@(posedge clk) start && version6 && !has_ports && !sound && protocol == UDP);
  chain_is_cut : cover property (@(posedge clk) start && version6 && walking && extension && !sound);
  extension_in_half_a_word : cover property (@(posedge clk) a_valid && version6 && at_next && extension && a_bytes < 4'd8);
  header_too_short : cover property (@(posedge clk) start && version4 && ihl < 4'd5 && !sound);
  header_longer_than_the_packet : cover property (@(posedge clk) start && version4 && ihl >= 4'd5 && packet_end < header_end);
  other_version : cover property (@(posedge clk) a_valid && a_word == '0 && a_data[7:4] != 4'd4 && a_data[7:4] != 4'd6);
endmodule
bind ip_fields ip_fields_points u_points (.*);
