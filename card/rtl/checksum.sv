// IPv4 and UDP checksums of a frame shown by look_align from its IPv4 header on: what they should be (fields taken as 0)
// and whether those in the frame are right. A word a clock. A fragment's UDP checksum cannot be told and counts as not UDP.
module checksum (
    input  logic        clk,
    input  logic        start, // before the first word
    input  logic        a_valid,
    input  logic [63:0] a_data,
    input  logic [3:0]  a_bytes,
    input  logic [10:0] a_word,
    output logic        is_ip,  // version 4, and the header is all there
    output logic        is_udp, // whole UDP datagram in it
    output logic        ip_right,
    output logic        udp_right, // also when the sender left it out (field 0)
    output logic [15:0] ip_sum,    // bytes as they go into the frame, first in 7:0
    output logic [15:0] udp_sum,
    output logic [6:0]  udp_at     // of the UDP checksum field, from the IPv4 header
);
  logic [31:0] ip_acc, udp_acc, ip_add, udp_add;
  logic [3:0]  ihl;
  logic [15:0] total, ip_field, udp_field, udp_length, seen;
  logic        version4, udp, fragment;
  logic [5:0]  header;
  logic [3:0]  ihl_now;
  logic [15:0] total_now;
  assign header = {ihl_now, 2'b00};
  assign ihl_now = a_word == '0 ? a_data[3:0] : ihl;
  assign total_now = a_word == '0 ? {a_data[23:16], a_data[31:24]} : total;

  // The sums are taken of little-endian lanes: a one's complement sum is the same with its bytes swapped.
  logic [3:0][15:0] lane;
  logic [3:0][15:0] at;
  always_comb begin
    ip_add = '0;
    udp_add = '0;
    for (int i = 0; i < 4; i++) begin
      at[i] = {2'b0, a_word, 3'b000} + 16'(2 * i);
      lane[i] = a_data[16*i +: 16];
      if (at[i] + 16'd1 == total_now) lane[i] = {8'b0, lane[i][7:0]}; // odd end
      if (at[i] < {10'b0, header}) begin
        if (at[i] != 16'd10) ip_add = ip_add + {16'b0, lane[i]};
        if (at[i] >= 16'd12 && at[i] < 16'd20) udp_add = udp_add + {16'b0, lane[i]};
      end else if (at[i] < total_now && at[i] != {10'b0, header} + 16'd6) udp_add = udp_add + {16'b0, lane[i]};
    end
  end

  always_ff @(posedge clk) begin
    if (start) begin
      ip_acc <= '0;
      udp_acc <= 32'h1100; // protocol 17 of the pseudo header
      version4 <= 1'b0;
      udp <= 1'b0;
      seen <= '0;
      ihl <= '0;
      total <= '0;
      fragment <= 1'b0;
      ip_field <= '0;
      udp_field <= '0;
      udp_length <= '0;
    end else if (a_valid) begin
      ip_acc <= ip_acc + ip_add;
      udp_acc <= udp_acc + udp_add;
      seen <= seen + {12'b0, a_bytes};
      if (a_word == '0) begin
        version4 <= a_data[7:4] == 4'd4 && a_data[3:0] >= 4'd5;
        ihl <= a_data[3:0];
        total <= total_now;
        fragment <= a_data[53:48] != '0 || a_data[63:56] != '0; // more fragments, or an offset
      end
      if (a_word == 11'd1) begin
        udp <= a_data[15:8] == 8'd17;
        ip_field <= a_data[31:16];
      end
      for (int i = 0; i < 4; i++) begin
        if (at[i] == {10'b0, header} + 16'd4) udp_length <= lane[i];
        if (at[i] == {10'b0, header} + 16'd6) udp_field <= lane[i];
      end
    end
  end

  function automatic logic [15:0] fold(input logic [31:0] sum);
    logic [16:0] carried;
    carried = {1'b0, sum[31:16]} + {1'b0, sum[15:0]};
    fold = carried[15:0] + {15'b0, carried[16]};
  endfunction

  logic [31:0] udp_whole;
  assign udp_whole = udp_acc + {16'b0, udp_length}; // the pseudo header's length
  assign is_ip = version4 && seen >= {10'b0, header} && total >= {10'b0, header};
  assign is_udp = is_ip && udp && !fragment && seen >= total && total >= {10'b0, header} + 16'd8
      && {udp_length[7:0], udp_length[15:8]} == total - {10'b0, header};
  assign ip_sum = ~fold(ip_acc);
  assign udp_sum = fold(udp_whole) == '1 ? 16'hffff : ~fold(udp_whole); // 0 is sent as all ones (RFC 768)
  assign ip_right = is_ip && fold({16'b0, fold(ip_acc)} + {16'b0, ip_field}) == '1;
  assign udp_right = is_udp && (udp_field == '0 || fold({16'b0, fold(udp_whole)} + {16'b0, udp_field}) == '1);
  assign udp_at = {1'b0, header} + 7'd6;
endmodule
