// What a filter asks of an IPv4 or IPv6 packet that look_align shows from its header on: addresses,
// protocol, ports. Of IPv6 it follows the extension headers, each of which begins with a word, up
// to the first that is none, or to the header of a later fragment. All holds from two clocks after
// the last word to `start`.
module ip_fields (
    input  logic         clk,
    input  logic         start, // before the first word
    input  logic         a_valid,
    input  logic [63:0]  a_data,
    input  logic [3:0]   a_bytes,
    input  logic [10:0]  a_word,
    output logic         version4,
    output logic         version6,
    output logic [127:0] source, // bytes of the packet; IPv4 has the first four, the others are 0
    output logic [127:0] destination,
    output logic [7:0]   protocol,
    output logic [31:0]  ports,     // source in 15:0, as bytes of the packet; else 0
    output logic         has_ports, // the four bytes behind the last header are there: no later fragment
    output logic         sound
);
  // A packet is sound if its headers are all there, with the ports of TCP and UDP, and if it does
  // not begin within TCP's header (RFC 1858, RFC 3128).
  localparam logic [7:0] TCP = 6, UDP = 17, FRAGMENT = 44, AH = 51;
  logic        walking;          // IPv6: the header at next_at may be an extension
  logic        later, second;    // a fragment that does not begin the packet; that begins at byte 8 of it
  logic        shown;            // the four bytes of the ports
  logic [3:0]  ihl;
  logic [11:0] next_at;          // the word after the last header so far
  logic [15:0] length, seen;     // as the header has it: IPv4 all, IPv6 what follows the header
  logic [16:0] header_end, packet_end;
  logic        extension, at_next; // extension: `protocol` is one
  logic [12:0] offset;
  function automatic logic is_extension(input logic [7:0] header);
    is_extension = header == 8'd0 || header == 8'd43 || header == 8'd60 || header == 8'd135 || header == 8'd139
        || header == 8'd140 || header == FRAGMENT || header == AH;
  endfunction
  assign at_next = walking && {1'b0, a_word} == next_at;
  assign offset = a_word == '0 ? {a_data[52:48], a_data[63:56]} : {a_data[23:16], a_data[31:27]};
  assign header_end = version4 ? {11'b0, ihl, 2'b00} : {2'b0, next_at, 3'b000};
  assign packet_end = version4 ? {1'b0, length} : {1'b0, length} + 17'd40;

  always_ff @(posedge clk) begin
    if (start) begin
      {version4, version6, walking, later, second, shown} <= '0;
      {ports, protocol, extension, ihl, length, seen} <= '0;
      {source, destination} <= '0;
      next_at <= '0;
    end else if (a_valid) begin
      seen <= seen + {12'b0, a_bytes};
      if (a_word == '0) begin
        version4 <= a_data[7:4] == 4'd4;
        version6 <= a_data[7:4] == 4'd6;
        walking <= a_data[7:4] == 4'd6;
        ihl <= a_data[3:0];
        next_at <= 12'd5;
        if (a_data[7:4] == 4'd6) begin
          length <= {a_data[39:32], a_data[47:40]};
          {protocol, extension} <= {a_data[55:48], is_extension(a_data[55:48])};
        end else begin
          length <= {a_data[23:16], a_data[31:24]};
          later <= offset != '0;
          second <= offset == 13'd1;
        end
      end
      if (version4) begin
        if (a_word == 11'd1) {source[31:0], protocol} <= {a_data[63:32], a_data[15:8]};
        if (a_word == 11'd2) destination[31:0] <= a_data[31:0];
        for (int h = 0; h < 2; h++)
          if ({a_word, 1'(h)} == {8'b0, ihl} && a_bytes >= 4'(4 * h + 4)) {shown, ports} <= {1'b1, a_data[32*h +: 32]};
      end
      if (version6) begin
        if (a_word == 11'd1) source[63:0] <= a_data;
        if (a_word == 11'd2) source[127:64] <= a_data;
        if (a_word == 11'd3) destination[63:0] <= a_data;
        if (a_word == 11'd4) destination[127:64] <= a_data;
        if (at_next && !extension) begin
          walking <= 1'b0;
          if (a_bytes >= 4'd4) {shown, ports} <= {1'b1, a_data[31:0]};
        end else if (at_next && a_bytes == 4'd8) begin
          {protocol, extension} <= {a_data[7:0], is_extension(a_data[7:0])};
          next_at <= next_at + (protocol == FRAGMENT ? 12'd1 : protocol == AH ? ({4'b0, a_data[15:8]} + 12'd2) >> 1
                                : {4'b0, a_data[15:8]} + 12'd1);
          if (protocol == FRAGMENT && offset != '0) {walking, later, second} <= {2'b01, offset == 13'd1};
        end
      end
      if (later) {shown, ports} <= '0;
    end
  end

  // ---- the verdict
  logic whole, with_ports;
  assign with_ports = shown && !later && header_end + 17'd4 <= packet_end;
  assign whole = {1'b0, seen} >= header_end && packet_end >= header_end
      && (version4 ? ihl >= 4'd5 : version6 && !(walking && extension));
  always_ff @(posedge clk) begin
    has_ports <= with_ports;
    sound <= whole && (with_ports || later || (protocol != TCP && protocol != UDP)) && !(second && protocol == TCP);
  end
endmodule
