// Cuts IPv4 packets that are too long for the line into fragments (RFC 791), on the way from X1 to
// the MAC. A frame is cut if `mtu` is not 0, it goes to the MAC, its IP header has no options, the
// packet is longer than `mtu` bytes, and it may be cut (DF is clear). Every other frame passes
// unchanged. The payload begins two bytes into a word and a fragment carries whole words of it, so
// nothing is shifted: a word where two fragments meet ends one with two bytes and begins the next
// with six. Cycles: one a word; six more for a frame, whose first five words are collected, and
// nine for each fragment, which has a header of its own.
// verilator lint_off UNUSEDSIGNAL
module fragment (
    input  logic        clk,
    input  logic        rst,
    input  logic [15:0] mtu, // of the line, in bytes of IP packet, 68 at least; 0: nothing is cut
    input  logic        s_valid,
    output logic        s_ready,
    input  logic [63:0] s_data,
    input  logic        s_eof,
    input  logic [3:0]  s_bytes,
    input  logic        s_err,
    input  logic        s_to_mac,
    output logic        m_valid,
    input  logic        m_ready,
    output logic [63:0] m_data,
    output logic        m_sof,
    output logic        m_eof,
    output logic [3:0]  m_bytes,
    output logic        m_err,
    output logic        m_to_mac,
    output logic [31:0] fragments // sent
);
  localparam logic [2:0] COLLECT = 0, DECIDE = 1, PLAN = 2, FOLD = 3, HEAD = 4, BODY = 5;
  localparam logic [15:0] HEADER_BYTES = 16'd20;
  logic [2:0]   state;
  logic [319:0] head;    // the first five words, byte 0 lowest
  logic [2:0]   count;   // words of them that came, or that have left
  logic         ended;   // the frame ends within them
  logic [3:0]   bytes;   // of its last word then
  logic [2:0]   ending;  // the number of that word
  logic         err;
  logic         cut, last;
  logic [15:0]  left;    // payload bytes of this fragment and all behind it
  logic [15:0]  step;    // payload bytes of all fragments but the last
  logic [12:0]  words;   // of this fragment's body, unless it is the last
  logic [12:0]  offset;  // of this fragment, in eight bytes
  logic         more;    // the packet was a fragment before another one
  logic [31:0]  sum;     // of the header without length, offset and checksum

  function automatic logic [15:0] swap(input logic [15:0] wire_order);
    swap = {wire_order[7:0], wire_order[15:8]};
  endfunction

  // ---- fields of the header, at their bytes in the frame
  logic [15:0] ethertype, total, flags, checksum;
  assign ethertype = swap(head[12*8 +: 16]);
  assign total = swap(head[16*8 +: 16]);
  assign flags = swap(head[20*8 +: 16]);
  assign checksum = swap(head[24*8 +: 16]);
  logic is_long;
  assign is_long = mtu != '0 && m_to_mac && !ended && ethertype == 16'h0800 && head[14*8 +: 8] == 8'h45 && !flags[14] && total > mtu;

  // ---- this fragment's header
  logic [15:0] own_total, own_flags, own_checksum;
  logic [319:0] own_head;
  assign own_total = HEADER_BYTES + (last ? left : step);
  assign own_flags = {2'b00, more || !last, offset};
  assign own_checksum = ~sum[15:0];
  always_comb begin
    own_head = head;
    if (cut) begin
      own_head[16*8 +: 16] = swap(own_total);
      own_head[20*8 +: 16] = swap(own_flags);
      own_head[24*8 +: 16] = swap(own_checksum);
    end
  end

  logic in_body, meets, joins, final_head;
  assign in_body = state == BODY;
  assign meets = cut && !last && words == 13'd1; // the word where this fragment and the next meet
  assign joins = meets && !(s_eof && s_bytes <= 4'd2); // it has bytes of the next
  assign final_head = count == (ended ? ending : 3'd4);
  assign s_ready = state == COLLECT || (in_body && m_ready);
  assign m_valid = state == HEAD || (in_body && s_valid);
  assign m_sof = state == HEAD && count == '0;
  assign m_data = in_body ? s_data : own_head[64*count +: 64];
  assign m_eof = in_body ? s_eof || meets : ended && final_head;
  assign m_bytes = in_body ? (joins ? 4'd2 : s_bytes) : ended && final_head ? bytes : 4'd8;
  // A packet that ends before its length says so is broken.
  assign m_err = in_body ? s_eof && (s_err || (cut && !last && !joins)) : ended && final_head && (err || (cut && !last));

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= COLLECT;
      count <= '0;
      fragments <= '0;
    end else case (state)
      COLLECT: if (s_valid) begin
        head[64*count +: 64] <= s_data;
        if (count == '0) m_to_mac <= s_to_mac;
        count <= count + 1'b1;
        ended <= s_eof;
        bytes <= s_bytes;
        err <= s_err;
        ending <= count;
        cut <= 1'b0;
        if (s_eof || count == 3'd4) begin
          count <= '0;
          state <= DECIDE;
        end
      end
      DECIDE: begin
        cut <= is_long;
        left <= total - HEADER_BYTES;
        step <= (mtu - HEADER_BYTES) & 16'hfff8;
        offset <= flags[12:0];
        more <= flags[13];
        last <= 1'b0;
        state <= is_long ? PLAN : HEAD;
      end
      // A header's checksum without three of its fields (RFC 1624, equation 3), and with this
      // fragment's.
      PLAN: begin
        last <= left <= step;
        words <= step[15:3];
        sum <= {16'b0, ~checksum} + {16'b0, ~total} + {16'b0, ~flags};
        count <= '0;
        state <= FOLD;
      end
      FOLD: begin
        count <= count + 1'b1;
        case (count)
          3'd0: sum <= sum + {16'b0, own_total} + {16'b0, own_flags};
          3'd1: sum <= {16'b0, sum[15:0]} + {16'b0, sum[31:16]};
          default: begin
            sum <= {16'b0, sum[15:0]} + {16'b0, sum[31:16]};
            count <= '0;
            fragments <= fragments + 1'b1;
            state <= HEAD;
          end
        endcase
      end
      HEAD: if (m_ready) begin
        count <= count + 1'b1;
        if (final_head) begin
          count <= '0;
          state <= ended ? COLLECT : BODY;
        end
      end
      default: if (s_valid && m_ready) begin
        words <= words - 1'b1;
        if (joins) begin
          // Its six bytes that belong to the next fragment stand behind the header's end.
          head[34*8 +: 48] <= s_data[63:16];
          ended <= s_eof;
          bytes <= s_bytes;
          err <= s_err;
          ending <= 3'd4;
          left <= left - step;
          offset <= offset + step[15:3];
          state <= PLAN;
        end else if (s_eof) state <= COLLECT;
      end
    endcase
  end
endmodule
