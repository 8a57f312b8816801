// AES-GCM of one key at the rate of its AES: 10, 12 or 14 cycles a block, and one block more for
// each packet's tag mask. UNROLLED, with keys of any length, it is at that of its GHASH: 2
// cycles a block of payload, AAD and lengths, and 3 more for each packet.
//
// The front sends counter blocks into AES beside the payload that waits for them; the back takes
// both in order, and hashes. So the next packet enters while the last is being finished. First byte
// in the lowest bits.
module core_gcm #(
    parameter bit UNROLLED = 0
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         key_valid,
    output logic         key_ready,       // low until the key is expanded and H is known
    input  logic [255:0] key,
    input  logic [  1:0] key_len,
    input  logic         start_valid,
    output logic         start_ready,
    input  logic         start_dec,
    input  logic [ 95:0] start_iv,        // salt, then IV
    input  logic [127:0] start_aad,
    input  logic [  4:0] start_aad_bytes, // 0 to 16
    input  logic         in_valid,        // at least one block
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [  4:0] in_bytes,        // 1 to 16; fewer than 16 only in the last
    input  logic         in_last,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block,
    output logic [  4:0] out_bytes,
    output logic         out_last,
    output logic         tag_valid,       // computed from what came; whoever opens compares
    input  logic         tag_ready,
    output logic [127:0] tag
);
  localparam logic [1:0] PAYLOAD = 2'd0, MASK = 2'd1, SUBKEY = 2'd2;  // what an AES block is for
  typedef enum logic [1:0] {EXPAND, DERIVE, IDLE, ENCIPHER} front_t;
  typedef enum logic [2:0] {HEAD, AAD, TEXT, LENGTHS, FINISH} back_t;
  front_t front;
  back_t back;

  // Ports in the standards' order.
  logic [255:0] key_data;
  logic [95:0] iv;
  logic [127:0] aad_block, block, out_next, tag_next;
  bytes_swap #(.BYTES(32)) swap_key (.x(key), .y(key_data));
  bytes_swap #(.BYTES(12)) swap_iv (.x(start_iv), .y(iv));
  bytes_swap swap_aad (.x(start_aad), .y(aad_block));
  bytes_swap swap_in (.x(in_block), .y(block));

  // Keeps the first `bytes` bytes.
  function automatic logic [127:0] keep(input logic [127:0] x, input logic [4:0] bytes);
    for (int i = 0; i < 16; i++) keep[i*8+:8] = (15 - i) < int'(bytes) ? x[i*8+:8] : 8'd0;
  endfunction

  // AES and what waits beside it.
  logic aes_key_ready, aes_valid, aes_ready, stream_valid, stream_ready;
  logic [127:0] aes_block, stream;
  logic [1:0] aes_use, stream_use;
  logic [95:0] nonce;
  logic [31:0] counter;
  logic idle;  // nothing between front and back

  logic packet_ready, packet_valid, packet_taken, packet_dec;
  logic [127:0] packet_aad;
  logic [4:0] packet_aad_bytes;
  logic text_ready, text_valid, text_taken, text_last;
  logic [127:0] text;
  logic [4:0] text_bytes;

  aes_choice #(
      .UNROLLED(UNROLLED),
      .TAG(2)
  ) aes (
      .clk,
      .rst,
      .key_valid(key_valid && key_ready),
      .key_ready(aes_key_ready),
      .key_slot (1'b0),
      .key_data,
      .key_len,
      .in_valid (aes_valid),
      .in_ready (aes_ready),
      .in_data  (aes_block),
      .in_slot  (1'b0),
      .in_tag   (aes_use),
      .out_valid(stream_valid),
      .out_ready(stream_ready),
      .out_data (stream),
      .out_tag  (stream_use)
  );

  core_fifo #(
      .WIDTH(134),
      .DEPTH(UNROLLED ? 16 : 2)
  ) packets (
      .clk,
      .rst,
      .in_valid (start_valid && start_ready),
      .in_ready (packet_ready),
      .in_data  ({start_dec, start_aad_bytes, keep(aad_block, start_aad_bytes)}),
      .out_valid(packet_valid),
      .out_ready(packet_taken),
      .out_data ({packet_dec, packet_aad_bytes, packet_aad})
  );

  core_fifo #(
      .WIDTH(134),
      .DEPTH(UNROLLED ? 64 : 4)
  ) texts (
      .clk,
      .rst,
      .in_valid (in_valid && in_ready),
      .in_ready (text_ready),
      .in_data  ({in_last, in_bytes, keep(block, in_bytes)}),
      .out_valid(text_valid),
      .out_ready(text_taken),
      .out_data ({text_last, text_bytes, text})
  );

  assign idle = front == IDLE && back == HEAD && !packet_valid;
  assign key_ready = idle && aes_key_ready;
  assign start_ready = front == IDLE && aes_ready && packet_ready && !(key_valid && key_ready);
  assign in_ready = front == ENCIPHER && aes_ready && text_ready;
  always_comb begin
    aes_valid = (start_valid && start_ready) || (in_valid && in_ready) || front == DERIVE;
    case (front)
      DERIVE: begin
        aes_block = '0;
        aes_use   = SUBKEY;
      end
      IDLE: begin
        aes_block = {iv, 32'd1};
        aes_use   = MASK;
      end
      default: begin
        aes_block = {nonce, counter};
        aes_use   = PAYLOAD;
      end
    endcase
  end

  // Until H is there, packets wait: the back has it before their mask, as AES keeps the order.
  always_ff @(posedge clk) begin
    case (front)
      EXPAND: if (aes_key_ready) front <= DERIVE;
      DERIVE: if (aes_ready) front <= IDLE;
      IDLE: begin
        if (key_valid && key_ready) front <= EXPAND;
        else if (start_valid && start_ready) front <= ENCIPHER;
        nonce   <= iv;
        counter <= 32'd2;
      end
      ENCIPHER:
      if (in_valid && in_ready) begin
        counter <= counter + 1'b1;
        if (in_last) front <= IDLE;
      end
    endcase
    if (rst) front <= IDLE;
  end

  // The back.
  logic hash_valid, hash_ready, hash_done, hash_first, out_free, take_text;
  logic [127:0] hash_block, hash, crypted, mask;
  logic [15:0] length;  // bytes of payload so far
  logic decrypting;
  logic [4:0] aad_bytes;
  logic [127:0] aad;

  ghash #(
      .DIGIT  (UNROLLED ? 64 : 16),
      .OVERLAP(UNROLLED)
  ) hasher (
      .clk,
      .rst,
      .h_valid (stream_valid && stream_use == SUBKEY && back == HEAD),
      .h_data  (stream),
      .in_valid(hash_valid),
      .in_ready(hash_ready),
      .in_first(hash_first),
      .in_data (hash_block),
      .y_valid (hash_done),
      .y       (hash)
  );

  assign out_free = !out_valid || out_ready;
  assign crypted = keep(text ^ stream, text_bytes);
  assign take_text = back == TEXT && stream_valid && text_valid && hash_ready && out_free;
  assign text_taken = take_text;
  assign packet_taken = back == HEAD && stream_valid && stream_use == MASK;
  assign stream_ready = back == HEAD || take_text;
  assign hash_valid = back == AAD || back == LENGTHS || take_text;
  always_comb begin
    case (back)
      AAD: hash_block = aad;
      LENGTHS: hash_block = {56'd0, aad_bytes, 3'd0, 45'd0, length, 3'd0};
      default: hash_block = decrypting ? text : crypted;
    endcase
  end

  bytes_swap swap_out (.x(crypted), .y(out_next));
  bytes_swap swap_tag (.x(hash ^ mask), .y(tag_next));

  always_ff @(posedge clk) begin
    if (out_ready) out_valid <= 1'b0;
    if (tag_ready) tag_valid <= 1'b0;
    if (hash_valid && hash_ready) hash_first <= 1'b0;
    case (back)
      HEAD:
      if (packet_taken) begin
        mask <= stream;
        aad <= packet_aad;
        aad_bytes <= packet_aad_bytes;
        decrypting <= packet_dec;
        length <= '0;
        hash_first <= 1'b1;
        back <= packet_aad_bytes == 0 ? TEXT : AAD;
      end
      AAD: if (hash_ready) back <= TEXT;
      TEXT:
      if (take_text) begin
        out_valid <= 1'b1;
        out_block <= out_next;
        out_bytes <= text_bytes;
        out_last <= text_last;
        length <= length + 16'(text_bytes);
        if (text_last) back <= LENGTHS;
      end
      LENGTHS: if (hash_ready) back <= FINISH;
      default:
      if (hash_done && (!tag_valid || tag_ready)) begin
        tag_valid <= 1'b1;
        tag <= tag_next;
        back <= HEAD;
      end
    endcase
    if (rst) begin
      back <= HEAD;
      out_valid <= 1'b0;
      tag_valid <= 1'b0;
    end
  end
endmodule
