// A function of the slot (port: slot_function.sv): a cipher in CTR or CBC mode and HMAC in one
// pass, several packets of one SA at a time. The hash takes the ciphertext as it appears: what
// leaves the cipher's lanes when encrypting, the input when decrypting. With `cmd_null` the payload
// only passes the hash. Keys are loaded, and the direction turns, once no packet is within. CIPHER
// 0 AES-CTR, 1 AES-CBC, 2 3DES-CBC, in LANES lanes; HASH 1 SHA-1, 2 SHA-512, in UNITS units.
module fn_cipher_hmac #(
    parameter int CIPHER = 0,
    parameter int HASH = 1,
    parameter int LANES = CIPHER == 2 ? 8 : CIPHER == 1 ? 4 : 2,
    parameter int UNITS = HASH == 1 ? 2 : 1
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         cmd_valid,
    output logic         cmd_ready,
    input  logic         cmd_dec,
    input  logic         cmd_null,
    input  logic         cmd_rekey,
    input  logic [255:0] cmd_key,
    input  logic [1:0]   cmd_key_len,
    input  logic [511:0] cmd_auth_key,
    input  logic [31:0]  cmd_salt,
    input  logic [127:0] cmd_iv,
    input  logic [63:0]  cmd_esp,
    input  logic         cmd_esn,
    input  logic [31:0]  cmd_seq_hi,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic [4:0]   in_bytes,
    input  logic         in_last,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block,
    output logic [4:0]   out_bytes,
    output logic         out_last,
    output logic         icv_valid,
    input  logic         icv_ready,
    output logic [255:0] icv
);
  // ---- commands
  localparam logic [1:0] IDLE = 0, KEYS = 1, KEYED = 2;
  logic [1:0] state;
  logic [4:0] packets; // packets from command to ICV
  logic       key_c, key_h, key_c_ready, key_h_ready, start, filling, dec, null_q, alike, lanes_ready, hash_ready;
  assign alike = packets == '0 || (cmd_dec == dec && cmd_null == null_q);
  assign cmd_ready = (cmd_rekey ? state == KEYED : state == IDLE && alike) && !filling && packets != '1 && lanes_ready && hash_ready;
  assign start = cmd_valid && cmd_ready;
  always_ff @(posedge clk) begin
    if (rst) begin
      state <= IDLE;
      packets <= '0;
      filling <= 1'b0;
      key_c <= 1'b0;
      key_h <= 1'b0;
    end else begin
      if (key_c && key_c_ready) key_c <= 1'b0;
      if (key_h && key_h_ready) key_h <= 1'b0;
      case (state)
        IDLE: if (cmd_valid && cmd_rekey && packets == '0) begin
          state <= KEYS;
          key_c <= 1'b1;
          key_h <= 1'b1;
        end
        KEYS: if (!key_c && !key_h && key_c_ready && key_h_ready) state <= KEYED;
        default: if (start) state <= IDLE;
      endcase
      if (start) begin
        filling <= 1'b1;
        dec <= cmd_dec;
        null_q <= cmd_null;
      end else if (in_valid && in_ready && in_last) filling <= 1'b0;
      packets <= packets + 5'(start) - 5'(icv_valid && icv_ready);
    end
  end

  // ---- cipher: blocks to the lanes (l_) and back (c_)
  logic         l_valid, l_ready, c_valid, c_ready, c_last;
  logic [127:0] c_block;
  logic [4:0]   c_bytes;
  if (CIPHER == 2) begin : g_cipher
    logic        to_valid, to_ready, to_last, from_valid, from_ready, from_last;
    logic [63:0] to_word, from_word;
    logic [4:0]  unused_bytes;
    halves u_halves (
        .clk, .rst, .in_valid(l_valid), .in_ready(l_ready), .in_block, .in_bytes, .in_last, .to_valid, .to_ready, .to_word, .to_last,
        .from_valid, .from_ready, .from_word, .from_last, .out_valid(c_valid), .out_ready(c_ready), .out_block(c_block),
        .out_bytes(c_bytes), .out_last(c_last));
    lanes #(.CIPHER(CIPHER), .LANES(LANES), .DEPTH_LOG2(8)) u_lanes (
        .clk, .rst, .key_valid(key_c), .key_ready(key_c_ready), .key(cmd_key), .key_len(cmd_key_len), .start_valid(start && !cmd_null),
        .start_ready(lanes_ready), .start_dec(cmd_dec), .start_salt(cmd_salt), .start_iv(cmd_iv), .in_valid(to_valid),
        .in_ready(to_ready), .in_block(to_word), .in_bytes(5'd8), .in_last(to_last), .out_valid(from_valid), .out_ready(from_ready),
        .out_block(from_word), .out_bytes(unused_bytes), .out_last(from_last));
  end else begin : g_cipher
    lanes #(.CIPHER(CIPHER), .LANES(LANES), .DEPTH_LOG2(7)) u_lanes (
        .clk, .rst, .key_valid(key_c), .key_ready(key_c_ready), .key(cmd_key), .key_len(cmd_key_len), .start_valid(start && !cmd_null),
        .start_ready(lanes_ready), .start_dec(cmd_dec), .start_salt(cmd_salt), .start_iv(cmd_iv), .in_valid(l_valid),
        .in_ready(l_ready), .in_block, .in_bytes, .in_last, .out_valid(c_valid), .out_ready(c_ready), .out_block(c_block),
        .out_bytes(c_bytes), .out_last(c_last));
  end

  // ---- the ways of a block: input to lanes, to hash and to result (r_)
  logic         h_valid, h_ready, h_last, r_valid, r_ready, r_last, through;
  logic [127:0] h_block, r_block;
  logic [4:0]   h_bytes, r_bytes;
  assign through = dec || null_q; // the hash takes the input
  always_comb begin
    l_valid = in_valid && filling && !null_q && (!dec || h_ready);
    in_ready = filling && (!null_q ? l_ready : r_ready) && (!through || h_ready);
    c_ready = r_ready && !null_q && (through || h_ready);
    h_valid = through ? in_valid && in_ready : c_valid && r_ready;
    r_valid = null_q ? in_valid && filling && h_ready : c_valid && (through || h_ready);
    {h_last, h_bytes, h_block} = through ? {in_last, in_bytes, in_block} : {c_last, c_bytes, c_block};
    {r_last, r_bytes, r_block} = null_q ? {in_last, in_bytes, in_block} : {c_last, c_bytes, c_block};
  end
  // Results wait here for the ICV of the packet before, so that the hash may have them at once.
  logic [8:0] unused_level;
  fifo #(.WIDTH(134), .DEPTH_LOG2(8)) u_results (
      .clk, .rst, .s_valid(r_valid), .s_ready(r_ready), .s_item({r_last, r_bytes, r_block}), .m_valid(out_valid), .m_ready(out_ready),
      .m_item({out_last, out_bytes, out_block}), .level(unused_level));
  hash_lanes #(.HASH(HASH), .UNITS(UNITS)) u_hash (
      .clk, .rst, .key_valid(key_h), .key_ready(key_h_ready), .key(cmd_auth_key), .start_valid(start), .start_ready(hash_ready),
      .start_esp(cmd_esp), .start_iv(cmd_iv), .start_iv_bytes(cmd_null ? 5'd0 : CIPHER == 1 ? 5'd16 : 5'd8), .start_esn(cmd_esn),
      .start_seq_hi(cmd_seq_hi), .in_valid(h_valid), .in_ready(h_ready), .in_block(h_block), .in_bytes(h_bytes), .in_last(h_last),
      .icv_valid, .icv_ready, .icv);
endmodule
