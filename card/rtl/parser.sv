// What the driver's prefix says of a frame from the host, X2 finds out by itself for a frame from
// the MAC: Ethernet, IPv4 or IPv6 without extension headers, ESP bare or in UDP 4500 (RFC 3948),
// and the SA by its SPI, in a direct-mapped map of 256. It puts a prefix before such a frame and
// lets frames from the host through as they are. A frame that is not ESP, or not mapped, gets a
// prefix without crypto. Holds the first 12 words of a frame, which reach to the SPI behind the
// longest headers; about 32 clocks a frame.
module parser (
    input  logic        clk,
    input  logic        rst,
    input  logic        map_write,
    input  logic [31:0] map_spi,
    input  logic [7:0]  map_index,
    input  logic [3:0]  look, // what to do with frames from the MAC besides: IP checksum, UDP checksum, filter, signature
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic        s_sof,
    input  logic        s_eof,
    input  logic [3:0]  s_bytes,
    input  logic        s_err,
    input  logic        s_from_mac,
    output logic        m_valid,
    input  logic        m_ready,
    output logic [63:0] m_data,
    output logic        m_sof,
    output logic        m_eof,
    output logic [3:0]  m_bytes,
    output logic        m_err
);
  localparam logic [2:0] COLLECT = 0, READ = 1, JUDGE = 2, PREFIX = 3, REPLAY = 4, PASS = 5;
  localparam logic [3:0] HELD = 12;
  localparam logic [15:0] IPV4 = 16'h0008, IPV6 = 16'hdd86, PORT_4500 = 16'h9411; // as they stand in the words
  logic [2:0]  state;
  logic [3:0]  count, at; // words held, word read
  logic [68:0] held[0:15]; // err, bytes, data
  logic        ended; // the frame ends within the held words

  // ---- the fields, read from the held words one after the other
  logic [63:0] word;
  logic [63:0] first, second; // around the byte where the transport header begins
  logic [1:0]  phase;
  logic        ip, v6, sound, fragment;
  logic [3:0]  ihl;        // of the header, in units of 4 bytes
  logic [7:0]  protocol;
  logic [15:0] total;      // as the header has it: IPv4 all, IPv6 what follows the header
  logic [6:0]  transport;  // byte of the transport header
  logic [6:0]  esp_off;
  logic [31:0] shown;      // 4 bytes from there, later from esp_off
  logic        udp_esp, is_esp;
  logic        enough; // the SPI is in the held words
  assign word = held[at][63:0];
  assign transport = 7'd14 + {1'b0, ihl, 2'b00};
  assign shown = 32'({second, first} >> {esp_off[2:0], 3'b000});

  // ---- the map
  // set, index, SPI. An entry that was read while it was written may be a mixture of both, which
  // the SPI of its SA shows (pipeline_take).
  (* no_rw_check *) logic [40:0] map[0:255];
  logic [40:0] found, entry; // as the RAM gives it, slowly, and in a register
  logic [31:0] spi;
  logic [7:0]  slot_write, slot_read;
  logic [255:0] set;
  logic         set_here;
  assign slot_write = map_spi[7:0] ^ map_spi[15:8] ^ map_spi[23:16] ^ map_spi[31:24];
  assign slot_read = spi[7:0] ^ spi[15:8] ^ spi[23:16] ^ spi[31:24];
  always_ff @(posedge clk) begin
    if (map_write) map[slot_write] <= {1'b1, map_index, map_spi};
    found <= map[slot_read];
    entry <= found;
    set_here <= set[slot_read];
  end

  logic         mapped;
  logic [15:0]  esp_end;
  logic [255:0] prefix;
  // A length that wraps ends before the SPI.
  always_ff @(posedge clk) esp_end <= (v6 ? 16'd54 : 16'd14) + total;
  always_comb begin
    prefix = '0;
    prefix[9] = 1'b1; // decrypt
    prefix[23:16] = {3'b0, ip ? look : 4'b0, mapped};
    prefix[39:32] = entry[39:32];
    prefix[143:128] = 16'd14;
    prefix[159:144] = mapped ? {9'b0, esp_off} : 16'd0;
    prefix[175:160] = esp_end;
    prefix[176] = 1'b1; // from the MAC
    prefix[223:192] = spi;
  end

  logic s_sof_host; // a frame from the host begins: it only passes
  assign s_sof_host = s_sof && !s_from_mac;
  assign s_ready = state == COLLECT ? !s_sof_host : state == PASS && m_ready;

  always_comb begin
    m_valid = 1'b0;
    m_data = s_data;
    m_sof = 1'b0;
    m_eof = 1'b0;
    m_bytes = 4'd8;
    m_err = 1'b0;
    case (state)
      PREFIX: begin
        m_valid = 1'b1;
        m_data = prefix[64*at[1:0] +: 64];
        m_sof = at == '0;
      end
      REPLAY: begin
        m_valid = 1'b1;
        {m_err, m_bytes, m_data} = held[at];
        m_eof = ended && at == count - 4'd1;
      end
      PASS: begin
        m_valid = s_valid;
        m_sof = s_sof;
        m_eof = s_eof;
        m_bytes = s_bytes;
        m_err = s_err;
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= COLLECT;
      count <= '0;
      set <= '0;
    end else begin
      if (map_write) set[slot_write] <= 1'b1;
      case (state)
        COLLECT: begin
          at <= 4'd1;
          phase <= '0;
          mapped <= 1'b0;
          ended <= s_eof;
          if (s_valid && s_sof_host) state <= PASS;
          else if (s_valid) begin
            held[count] <= {s_err, s_bytes, s_data};
            count <= count + 1'b1;
            if (s_eof || count == HELD - 4'd1) state <= READ;
          end
        end
        // Words 1 and 2 hold the type and the header's fields, then come the two around the
        // transport header, and, for UDP, the two around what it carries.
        READ: begin
          phase <= phase + 1'b1;
          at <= at + 1'b1;
          case (phase)
            2'd0: begin
              ip <= (word[47:32] == IPV4 || word[47:32] == IPV6) && count > 4'd1;
              v6 <= word[47:32] == IPV6;
              sound <= word[47:32] == IPV6 ? word[55:52] == 4'd6
                  : word[47:32] == IPV4 && word[55:52] == 4'd4 && word[51:48] >= 4'd5;
              ihl <= word[47:32] == IPV6 ? 4'd10 : word[51:48];
            end
            2'd1: begin
              total <= v6 ? {word[23:16], word[31:24]} : {word[7:0], word[15:8]};
              fragment <= !v6 && (word[36:32] != '0 || word[47:40] != '0 || word[37]);
              protocol <= v6 ? word[39:32] : word[63:56];
              at <= transport[6:3];
              esp_off <= transport;
              udp_esp <= 1'b0;
            end
            2'd2: first <= word;
            default: begin
              second <= word;
              state <= JUDGE;
            end
          endcase
        end
        JUDGE: begin
          // The map's answer stands in `entry` three clocks after `shown` does; a port is judged
          // in `spi`.
          phase <= phase + 1'b1;
          if (phase == '0) spi <= shown;
          if (phase == 2'd1 && sound && !fragment && protocol == 8'd17 && !udp_esp && spi[31:16] == PORT_4500) begin
            udp_esp <= 1'b1;
            esp_off <= transport + 7'd8;
            at <= 4'(({1'b0, transport} + 8'd8) >> 3);
            phase <= 2'd2;
            state <= READ;
          end else if (phase == 2'd3) begin
            mapped <= is_esp && spi != '0 && entry[40] && set_here && entry[31:0] == spi && {9'b0, esp_off} + 16'd12 < esp_end && enough;
            at <= '0;
            state <= PREFIX;
          end
        end
        PREFIX: if (m_ready) begin
          at <= at == 4'd3 ? '0 : at + 1'b1;
          if (at == 4'd3) state <= REPLAY;
        end
        REPLAY: if (m_ready) begin
          at <= at + 1'b1;
          if (at == count - 4'd1) begin
            count <= '0;
            state <= ended ? COLLECT : PASS;
          end
        end
        default: if (s_valid && m_ready && s_eof) state <= COLLECT;
      endcase
    end
  end
  assign enough = {1'b0, esp_off} + 8'd4 <= {1'b0, count, 3'b000};
  assign is_esp = sound && !fragment && (protocol == 8'd50 || udp_esp);
endmodule
