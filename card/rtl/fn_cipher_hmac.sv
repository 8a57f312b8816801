// A function of the slot (port: slot.sv): a cipher in CTR or CBC mode and HMAC in one pass. The hash takes the ciphertext as
// it appears: the output when encrypting, the input when decrypting. With `cmd_null` the payload only passes the hash.
// CIPHER 0 AES-CTR, 1 AES-CBC, 2 3DES-CBC; HASH 1 SHA-1, 2 SHA-512.
module fn_cipher_hmac #(
    parameter int CIPHER = 0,
    parameter int HASH = 1
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
  // ---- commands: load keys if they are new, then begin
  localparam logic [1:0] IDLE = 0, KEYS = 1, READY = 2, WORK = 3;
  logic [1:0] state;
  logic       key_c, key_h, key_c_ready, key_h_ready, start, dec, null_q;
  assign cmd_ready = state == READY;
  assign start = cmd_valid && cmd_ready;
  always_ff @(posedge clk) begin
    if (rst) begin
      state <= IDLE;
      key_c <= 1'b0;
      key_h <= 1'b0;
    end else begin
      if (key_c && key_c_ready) key_c <= 1'b0;
      if (key_h && key_h_ready) key_h <= 1'b0;
      case (state)
        IDLE: if (cmd_valid) begin
          state <= cmd_rekey ? KEYS : READY;
          key_c <= cmd_rekey;
          key_h <= cmd_rekey;
        end
        KEYS: if (!key_c && !key_h && key_c_ready && key_h_ready) state <= READY;
        READY: if (start) begin
          state <= WORK;
          dec <= cmd_dec;
          null_q <= cmd_null;
        end
        default: if (icv_valid && icv_ready) state <= IDLE;
      endcase
    end
  end

  // ---- cipher, with its bypass
  logic         c_in_valid, c_in_ready, c_out_valid, c_out_ready, c_out_last, m_in_ready, m_out_valid, m_out_last, fork_ready;
  logic [127:0] c_out_block, m_out_block;
  logic [4:0]   c_out_bytes, m_out_bytes;
  if (CIPHER == 0) begin : g_cipher
    mode_ctr u_mode (.clk, .rst, .key_valid(key_c), .key_ready(key_c_ready), .key(cmd_key), .key_len(cmd_key_len),
        .start, .salt(cmd_salt), .iv(cmd_iv[63:0]), .in_valid(c_in_valid && !null_q), .in_ready(m_in_ready), .in_block, .in_bytes,
        .in_last, .out_valid(m_out_valid), .out_ready(c_out_ready && !null_q), .out_block(m_out_block), .out_bytes(m_out_bytes),
        .out_last(m_out_last));
    logic unused;
    assign unused = &{1'b0, cmd_iv[127:64]};
  end else if (CIPHER == 1) begin : g_cipher
    assign m_out_bytes = 5'd16;
    mode_cbc u_mode (.clk, .rst, .key_valid(key_c), .key_ready(key_c_ready), .key(cmd_key), .key_len(cmd_key_len),
        .start, .dec(cmd_dec), .iv(cmd_iv), .in_valid(c_in_valid && !null_q), .in_ready(m_in_ready), .in_block, .in_last,
        .out_valid(m_out_valid), .out_ready(c_out_ready && !null_q), .out_block(m_out_block), .out_last(m_out_last));
    logic unused;
    assign unused = &{1'b0, cmd_salt};
  end else begin : g_cipher
    mode_cbc_3des u_mode (.clk, .rst, .key_valid(key_c), .key_ready(key_c_ready), .key(cmd_key[191:0]),
        .start, .dec(cmd_dec), .iv(cmd_iv[63:0]), .in_valid(c_in_valid && !null_q), .in_ready(m_in_ready), .in_block, .in_bytes,
        .in_last, .out_valid(m_out_valid), .out_ready(c_out_ready && !null_q), .out_block(m_out_block), .out_bytes(m_out_bytes),
        .out_last(m_out_last));
    logic unused;
    assign unused = &{1'b0, cmd_salt, cmd_key[255:192], cmd_key_len, cmd_iv[127:64]};
  end
  // The bypass is a queue, for the shell takes the last block only after it has given it.
  logic         n_in_ready, n_out_valid, n_out_last;
  logic [127:0] n_out_block;
  logic [4:0]   n_out_bytes;
  core_fifo #(.WIDTH(134), .DEPTH(2)) u_bypass (
      .clk, .rst, .in_valid(c_in_valid && null_q), .in_ready(n_in_ready), .in_data({in_last, in_bytes, in_block}),
      .out_valid(n_out_valid), .out_ready(c_out_ready && null_q), .out_data({n_out_last, n_out_bytes, n_out_block}));
  assign c_in_ready = null_q ? n_in_ready : m_in_ready;
  assign c_out_valid = null_q ? n_out_valid : m_out_valid;
  assign c_out_block = null_q ? n_out_block : m_out_block;
  assign c_out_bytes = null_q ? n_out_bytes : m_out_bytes;
  assign c_out_last = null_q ? n_out_last : m_out_last;

  // ---- the ciphertext goes two ways
  logic         h_in_valid, h_in_ready, h_valid, h_ready, h_last;
  logic [127:0] h_block;
  logic [4:0]   h_bytes;
  assign fork_ready = h_in_ready && state == WORK;
  assign c_in_valid = in_valid && state == WORK && (!dec || fork_ready);
  assign in_ready = c_in_ready && state == WORK && (!dec || fork_ready);
  assign out_valid = c_out_valid && (dec || fork_ready);
  assign c_out_ready = out_ready && (dec || fork_ready);
  assign out_block = c_out_block;
  assign out_bytes = c_out_bytes;
  assign out_last = c_out_last;
  assign h_in_valid = dec ? in_valid && in_ready : out_valid && out_ready;
  core_fifo #(.WIDTH(134), .DEPTH(4)) u_fork (
      .clk, .rst, .in_valid(h_in_valid), .in_ready(h_in_ready),
      .in_data(dec ? {in_last, in_bytes, in_block} : {c_out_last, c_out_bytes, c_out_block}),
      .out_valid(h_valid), .out_ready(h_ready), .out_data({h_last, h_bytes, h_block}));

  // ---- hash
  logic        w_valid, w_ready, w_last;
  logic [63:0] w_data;
  logic [3:0]  w_bytes;
  hash_feed u_feed (
      .clk, .rst, .start, .esp(cmd_esp), .iv(cmd_iv), .iv_bytes(cmd_null ? 5'd0 : CIPHER == 1 ? 5'd16 : 5'd8), .esn(cmd_esn),
      .seq_hi(cmd_seq_hi), .in_valid(h_valid), .in_ready(h_ready), .in_block(h_block), .in_bytes(h_bytes), .in_last(h_last),
      .m_valid(w_valid), .m_ready(w_ready), .m_data(w_data), .m_bytes(w_bytes), .m_last(w_last));
  if (HASH == 1) begin : g_hash
    logic [159:0] mac;
    core_hmac_sha1 u_hash (.clk, .rst, .key_valid(key_h), .key_ready(key_h_ready), .key(cmd_auth_key), .in_valid(w_valid),
        .in_ready(w_ready), .in_data(w_data), .in_bytes(w_bytes), .in_last(w_last), .mac_valid(icv_valid), .mac_ready(icv_ready), .mac);
    assign icv = {96'b0, mac};
  end else begin : g_hash
    logic [511:0] mac;
    core_hmac_sha512 u_hash (.clk, .rst, .key_valid(key_h), .key_ready(key_h_ready), .key({512'b0, cmd_auth_key}),
        .in_valid(w_valid), .in_ready(w_ready), .in_data(w_data), .in_bytes(w_bytes), .in_last(w_last), .mac_valid(icv_valid),
        .mac_ready(icv_ready), .mac);
    assign icv = mac[255:0];
    logic unused;
    assign unused = &{1'b0, mac[511:256]};
  end
endmodule
