// Walks a descriptor ring of the host and the scatter-gather tables behind it: gives the memory
// segments of one descriptor after the other, in order. Reads descriptors and table entries, two
// words a burst, over its own small request port. An empty table, a table that is not a multiple of
// 8, a segment or a descriptor of no bytes is bad: the descriptor then ends with `seg_bad` and no
// more of it is given. Heads and tails run freely: index = count & mask.
// verilator lint_off UNUSEDSIGNAL
module dma_segments (
    input  logic        clk,
    input  logic        rst,
    input  logic        on,
    input  logic [31:0] base,  // of the ring, a multiple of 16
    input  logic [15:0] mask,  // entries less one
    input  logic [15:0] tail,  // what the host has posted
    output logic [15:0] head,  // what has been read
    output logic        req_valid,
    input  logic        req_ready,
    output logic [31:0] req_addr,
    output logic [5:0]  req_words,
    input  logic        rd_valid,
    output logic        rd_ready,
    input  logic [63:0] rd_data,
    output logic        seg_valid,
    input  logic        seg_ready,
    output logic [31:0] seg_addr,
    output logic [15:0] seg_bytes,
    output logic        seg_last, // of the descriptor
    output logic        seg_bad,  // with seg_last: an error, no bytes
    output logic [31:0] seg_cookie,
    output logic [1:0]  seg_target
);
  localparam logic [2:0] IDLE = 0, ASK = 1, WORD0 = 2, WORD1 = 3, ASK_ENTRY = 4, ENTRY = 5, GIVE = 6;
  logic [2:0]  state;
  logic [31:0] addr;     // of the segment, or of the next table entry
  logic [15:0] length;
  logic [7:0]  count;    // table entries left
  logic        table_used;
  assign req_valid = state == ASK || state == ASK_ENTRY;
  assign req_addr = state == ASK ? base + {12'b0, head & mask, 4'b0000} : addr;
  assign req_words = state == ASK ? 6'd2 : 6'd1;
  assign rd_ready = state == WORD0 || state == WORD1 || state == ENTRY;
  assign seg_valid = state == GIVE;

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= IDLE;
      head <= '0;
    end else case (state)
      IDLE: if (on && head != tail) state <= ASK;
      ASK: if (req_ready) state <= WORD0;
      WORD0: if (rd_valid) begin
        addr <= rd_data[31:0];
        length <= rd_data[47:32];
        count <= rd_data[55:48];
        table_used <= rd_data[56];
        state <= WORD1;
      end
      WORD1: if (rd_valid) begin
        seg_cookie <= rd_data[31:0];
        seg_target <= rd_data[33:32];
        head <= head + 1'b1;
        seg_addr <= addr;
        seg_bytes <= length;
        seg_last <= 1'b1;
        seg_bad <= table_used ? count == '0 || addr[2:0] != '0 : length == '0;
        state <= table_used && count != '0 && addr[2:0] == '0 ? ASK_ENTRY : GIVE;
      end
      ASK_ENTRY: if (req_ready) state <= ENTRY;
      ENTRY: if (rd_valid) begin
        addr <= addr + 32'd8;
        count <= count - 1'b1;
        seg_addr <= rd_data[31:0];
        seg_bytes <= rd_data[47:32];
        seg_bad <= rd_data[47:32] == '0;
        seg_last <= count == 8'd1 || rd_data[47:32] == '0;
        state <= GIVE;
      end
      default: if (seg_ready) state <= seg_last ? IDLE : ASK_ENTRY;
    endcase
  end
endmodule
