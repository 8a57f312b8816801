// IPv4 and UDP checksums of a frame shown by look_align from its IP header on: what they should be
// (fields taken as 0) and whether those in the frame are right. A word a clock, the result seven
// clocks after the last. A fragment's UDP checksum cannot be told and counts as not UDP, and so
// does UDP behind extension headers of IPv6, in which UDP must have a checksum (RFC 8200).
module checksum (
    input  logic        clk,
    input  logic        start, // before the first word
    input  logic        a_valid,
    input  logic [63:0] a_data,
    input  logic [3:0]  a_bytes,
    input  logic [10:0] a_word,
    output logic        is_ip,  // version 4, and the header is all there
    output logic        is_udp, // whole UDP datagram in it, of IPv4 or IPv6
    output logic        ip_right,  // also of IPv6, which has none
    output logic        udp_right, // also when IPv4's sender left it out (field 0)
    output logic [15:0] ip_sum,    // bytes as they go into the frame, first in 7:0
    output logic [15:0] udp_sum,
    output logic [6:0]  udp_at     // of the UDP checksum field, from the IP header
);
  // ---- the word, beside what the first word said of the packet
  logic        d_valid, version4, version6, udp, udp6, fragment;
  logic [63:0] d_data;
  logic [10:0] d_word;
  logic [3:0]  ihl;
  logic [15:0] total, left, seen; // `left`: bytes of the packet from this word on
  logic [5:0]  header;
  assign header = {ihl, 2'b00};

  always_ff @(posedge clk) begin
    d_valid <= a_valid && !start;
    d_data <= a_data;
    d_word <= a_word;
    if (start) begin
      seen <= '0;
      ihl <= '0;
      total <= '0;
      version4 <= 1'b0;
      version6 <= 1'b0;
      udp6 <= 1'b0;
      fragment <= 1'b0;
    end else if (a_valid) begin
      seen <= seen + {12'b0, a_bytes};
      left <= left[15:3] == '0 ? '0 : left - 16'd8;
      if (a_word == '0) begin
        version4 <= a_data[7:4] == 4'd4 && a_data[3:0] >= 4'd5;
        version6 <= a_data[7:4] == 4'd6;
        udp6 <= a_data[55:48] == 8'd17;
        // IPv6's header has ten units, and a length without them.
        ihl <= a_data[7:4] == 4'd6 ? 4'd10 : a_data[3:0];
        total <= a_data[7:4] == 4'd6 ? {a_data[39:32], a_data[47:40]} + 16'd40 : {a_data[23:16], a_data[31:24]};
        left <= a_data[7:4] == 4'd6 ? {a_data[39:32], a_data[47:40]} + 16'd40 : {a_data[23:16], a_data[31:24]};
        // More fragments, or an offset.
        fragment <= a_data[7:4] == 4'd4 && (a_data[53:48] != '0 || a_data[63:56] != '0);
      end
    end
  end

  // ---- what of it goes into which sum, in units of 4 bytes. The sums are taken of little-endian
  // lanes: a one's complement sum is the same with its bytes swapped. In the place of UDP's
  // checksum stands its length, which the pseudo header has again.
  logic [1:0][11:0] unit;
  logic [1:0]       in_header, addresses, checksummed; // the unit with UDP's length and checksum
  logic [3:0][15:0] lane, ip_part, udp_part, ip_next, udp_next;
  always_comb begin
    for (int h = 0; h < 2; h++) begin
      unit[h] = {d_word, 1'(h)};
      in_header[h] = unit[h] < {8'b0, ihl};
      addresses[h] = version6 ? unit[h] >= 12'd2 : unit[h] == 12'd3 || unit[h] == 12'd4;
      checksummed[h] = unit[h] == {8'b0, ihl} + 12'd1;
    end
    for (int i = 0; i < 4; i++) begin
      lane[i] = d_data[16*i +: 16];
      ip_next[i] = in_header[i/2] && !(unit[i/2] == 12'd2 && i % 2 == 1) ? lane[i] : '0;
      if (in_header[i/2]) udp_next[i] = addresses[i/2] ? lane[i] : '0;
      else if (checksummed[i/2] && i % 2 == 1) udp_next[i] = lane[i-1];
      else if (left[15:3] != '0 || left[2:0] > 3'(2 * i + 1)) udp_next[i] = lane[i];
      else udp_next[i] = left[2:0] == 3'(2 * i + 1) ? {8'b0, lane[i][7:0]} : '0; // an odd end
    end
  end

  logic [17:0] ip_word, udp_word;
  logic [31:0] ip_acc, udp_acc;
  logic [15:0] ip_field, udp_field, udp_length;
  always_ff @(posedge clk) begin
    for (int i = 0; i < 4; i++) begin
      ip_part[i] <= d_valid ? ip_next[i] : '0;
      udp_part[i] <= d_valid ? udp_next[i] : '0;
    end
    ip_word <= ({2'b0, ip_part[0]} + {2'b0, ip_part[1]}) + ({2'b0, ip_part[2]} + {2'b0, ip_part[3]});
    udp_word <= ({2'b0, udp_part[0]} + {2'b0, udp_part[1]}) + ({2'b0, udp_part[2]} + {2'b0, udp_part[3]});
    ip_acc <= start ? '0 : ip_acc + {14'b0, ip_word};
    udp_acc <= start ? 32'h1100 : udp_acc + {14'b0, udp_word}; // protocol 17 of the pseudo header
    if (start) begin
      udp <= 1'b0;
      ip_field <= '0;
      udp_field <= '0;
      udp_length <= '0;
    end else if (d_valid) begin
      if (d_word == 11'd1) begin
        udp <= version6 ? udp6 : d_data[15:8] == 8'd17;
        ip_field <= d_data[31:16];
      end
      for (int h = 0; h < 2; h++) if (checksummed[h]) {udp_field, udp_length} <= d_data[32*h +: 32];
    end
  end

  // ---- the verdict
  logic [16:0] ip_once, udp_once;   // carries added once, and again
  logic [15:0] ip_twice, udp_twice, udp_bytes;
  logic [17:0] ip_check, udp_check; // with the field of the frame
  logic        header_there, long_enough, fits, whole_udp;
  assign whole_udp = (version4 || version6) && header_there && udp && !fragment && long_enough && fits;
  always_ff @(posedge clk) begin
    ip_once <= {1'b0, ip_acc[31:16]} + {1'b0, ip_acc[15:0]};
    udp_once <= {1'b0, udp_acc[31:16]} + {1'b0, udp_acc[15:0]};
    ip_twice <= ip_once[15:0] + {15'b0, ip_once[16]};
    udp_twice <= udp_once[15:0] + {15'b0, udp_once[16]};
    ip_check <= {1'b0, ip_once} + {2'b0, ip_field};
    udp_check <= {1'b0, udp_once} + {2'b0, udp_field};

    header_there <= seen >= {10'b0, header} && total >= {10'b0, header};
    udp_bytes <= total - {10'b0, header};
    long_enough <= seen >= total;
    fits <= udp_bytes >= 16'd8 && {udp_length[7:0], udp_length[15:8]} == udp_bytes;
    is_ip <= version4 && header_there;
    is_udp <= whole_udp;
    ip_sum <= ~ip_twice;
    udp_sum <= udp_twice == '1 ? 16'hffff : ~udp_twice; // 0 is sent as all ones (RFC 768)
    ip_right <= version6 || (version4 && header_there && all_ones(ip_check));
    udp_right <= whole_udp && ((udp_field == '0 && version4) || (udp_field != '0 && all_ones(udp_check)));
    udp_at <= {1'b0, header} + 7'd6;
  end

  // Is the one's complement sum all ones, once its carries are added?
  function automatic logic all_ones(input logic [17:0] sum);
    all_ones = {1'b0, sum[15:0]} + {15'b0, sum[17:16]} == 17'h0ffff;
  endfunction
endmodule
