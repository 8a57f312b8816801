// AES in counter mode (RFC 3686) at the rate of its AES: a block in 10, 12 or 14 cycles, or in one
// when unrolled.
//
// The text waits beside AES for its key stream, so packets follow each other without a gap, also
// those of another slot's key. First byte in the lowest bits.
module core_ctr #(
    parameter bit UNROLLED = 0,
    parameter int SLOTS = 2
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     key_valid,
    output logic                     key_ready,
    input  logic [$clog2(SLOTS)-1:0] key_slot,    // no packet of this slot may be in the core
    input  logic [            255:0] key,
    input  logic [              1:0] key_len,
    input  logic                     start_valid,
    output logic                     start_ready,
    input  logic [$clog2(SLOTS)-1:0] start_slot,
    input  logic [            127:0] start_block, // the first counter block: nonce, IV, 1
    input  logic                     in_valid,
    output logic                     in_ready,
    input  logic [            127:0] in_block,
    input  logic [              4:0] in_bytes,    // 1 to 16; fewer than 16 only in the last
    input  logic                     in_last,
    output logic                     out_valid,
    input  logic                     out_ready,
    output logic [            127:0] out_block,
    output logic [              4:0] out_bytes,
    output logic                     out_last
);
  logic [255:0] key_data;
  logic [127:0] first, counter_block, stream, stream_out, text, out_next;
  logic [$clog2(SLOTS)-1:0] slot;
  logic [4:0] text_bytes;
  logic text_last, text_ready, text_valid, aes_ready, stream_valid, busy, enter, leave;

  bytes_swap #(.BYTES(32)) swap_key (.x(key), .y(key_data));
  bytes_swap swap_start (.x(start_block), .y(first));
  bytes_swap swap_stream (.x(stream), .y(stream_out));

  assign start_ready = !busy || (enter && in_last);
  assign in_ready = busy && aes_ready && text_ready;
  assign enter = in_valid && in_ready;
  assign leave = stream_valid && text_valid && (!out_valid || out_ready);

  logic unused_tag;
  aes_choice #(
      .UNROLLED(UNROLLED),
      .SLOTS(SLOTS)
  ) aes (
      .clk,
      .rst,
      .key_valid,
      .key_ready,
      .key_slot,
      .key_data,
      .key_len,
      .in_valid (enter),
      .in_ready (aes_ready),
      .in_data  (counter_block),
      .in_slot  (slot),
      .in_tag   (1'b0),
      .out_valid(stream_valid),
      .out_ready(leave),
      .out_data (stream),
      .out_tag  (unused_tag)
  );

  core_fifo #(
      .WIDTH(134),
      .DEPTH(UNROLLED ? 64 : 4)
  ) texts (
      .clk,
      .rst,
      .in_valid (enter),
      .in_ready (text_ready),
      .in_data  ({in_last, in_bytes, in_block}),
      .out_valid(text_valid),
      .out_ready(leave),
      .out_data ({text_last, text_bytes, text})
  );

  // What stands behind the text's last byte is zero.
  always_comb begin
    for (int i = 0; i < 16; i++) out_next[i*8+:8] = i < int'(text_bytes) ? text[i*8+:8] ^ stream_out[i*8+:8] : 8'd0;
  end

  always_ff @(posedge clk) begin
    if (enter) counter_block[31:0] <= counter_block[31:0] + 1'b1;
    if (enter && in_last) busy <= 1'b0;
    if (start_valid && start_ready) begin
      busy <= 1'b1;
      slot <= start_slot;
      counter_block <= first;
    end

    if (out_ready) out_valid <= 1'b0;
    if (leave) begin
      out_valid <= 1'b1;
      out_block <= out_next;
      out_bytes <= text_bytes;
      out_last  <= text_last;
    end
    if (rst) begin
      busy <= 1'b0;
      out_valid <= 1'b0;
    end
  end
endmodule
