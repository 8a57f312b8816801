// HMAC (RFC 2104) with SHA-1 or SHA-512: a key's inner and outer states are computed once and kept,
// as IPsec's gateways do by SA.
//
// A message costs its own blocks with padding and one block for the outer hash. The first byte of
// every port is in the lowest bits.
module hmac #(
    parameter bit SHA512 = 0,
    parameter int STATE = SHA512 ? 512 : 160,
    parameter int BLOCK = SHA512 ? 1024 : 512
) (
    input  logic             clk,
    input  logic             rst,
    input  logic             key_valid,
    output logic             key_ready,
    input  logic [BLOCK-1:0] key,        // padded with zeros to a block
    input  logic             in_valid,   // at least one byte
    output logic             in_ready,
    input  logic [     63:0] in_data,
    input  logic [      3:0] in_bytes,   // 1 to 8; fewer than 8 only in the last
    input  logic             in_last,
    output logic             mac_valid,
    input  logic             mac_ready,
    output logic [STATE-1:0] mac
);
  localparam int POSITION = SHA512 ? 4 : 3;
  localparam logic [POSITION-1:0] LAST = '1;  // position of a block's last word of 64 bits
  // Where the length begins: it has 128 bits in SHA-512.
  localparam logic [POSITION-1:0] LENGTH_AT = SHA512 ? LAST - 1'b1 : LAST;
  localparam int DIGEST_WORDS = (STATE + 63) / 64;
  localparam logic [3:0] DIGEST_LAST_BYTES = SHA512 ? 4'd8 : 4'd4;
  localparam logic [159:0] SHA1_START = 160'h67452301_efcdab89_98badcfe_10325476_c3d2e1f0;
  localparam logic [511:0] SHA512_START = {
    64'h6a09e667f3bcc908, 64'hbb67ae8584caa73b, 64'h3c6ef372fe94f82b, 64'ha54ff53a5f1d36f1,
    64'h510e527fade682d1, 64'h9b05688c2b3e6c1f, 64'h1f83d9abfb41bd6b, 64'h5be0cd19137e2179
  };

  typedef enum logic [2:0] {IDLE, KEY_INNER, KEY_OUTER, MESSAGE, DIGEST} phase_t;
  typedef enum logic [2:0] {BYTES, MARK, SKIP, ZEROS, ENDED} padding_t;
  phase_t phase;
  padding_t padding;

  logic [STATE-1:0] inner, outer, state, start_state, mac_next;
  logic [BLOCK-1:0] key_block, key_words;  // key_words turns a word at a time
  logic [DIGEST_WORDS*64-1:0] digest;      // of the inner hash, its next word in the highest bits
  logic [2:0] digest_word;
  logic [POSITION-1:0] position;
  logic [15:0] length;                     // bytes of the phase's message
  logic fresh;                             // no block of this phase has begun
  logic [63:0] given;                      // in_data in the standards' order

  bytes_swap #(.BYTES(BLOCK / 8)) swap_key (.x(key), .y(key_block));
  bytes_swap #(.BYTES(8)) swap_in (.x(in_data), .y(given));
  bytes_swap #(.BYTES(STATE / 8)) swap_mac (.x(state), .y(mac_next));

  // What the phase hashes, before padding.
  logic [63:0] source, word;
  logic [3:0] source_bytes;
  logic source_valid, source_last, word_valid, keying;
  // The word that waits for the hash.
  logic [63:0] queued;
  logic queued_valid, queued_ready, place, emit;
  logic start_ready, start, phase_done;

  assign keying = phase == KEY_INNER || phase == KEY_OUTER;
  always_comb begin
    case (phase)
      MESSAGE: begin
        source = given;
        source_valid = in_valid;
        source_bytes = in_bytes;
        source_last = in_last;
      end
      DIGEST: begin
        source = digest[DIGEST_WORDS*64-1-:64];
        source_valid = 1'b1;
        source_last = digest_word == 3'(DIGEST_WORDS - 1);
        source_bytes = source_last ? DIGEST_LAST_BYTES : 4'd8;
      end
      default: begin
        source = key_words[BLOCK-1-:64] ^ {8{phase == KEY_INNER ? 8'h36 : 8'h5c}};
        source_valid = keying;
        source_last = position == LAST;
        source_bytes = 4'd8;
      end
    endcase
  end

  // The bytes, then one bit, zeros and the length in bits, which counts the key's block.
  always_comb begin
    word_valid = 1'b1;
    word = '0;
    case (padding)
      BYTES: begin
        word_valid = source_valid;
        for (int i = 0; i < 8; i++) begin
          if (i < int'(source_bytes)) word[(7-i)*8+:8] = source[(7-i)*8+:8];
          else if (i == int'(source_bytes)) word[(7-i)*8+:8] = 8'h80;
        end
      end
      MARK: word[63] = 1'b1;
      ZEROS: if (position == LAST) word = {45'd0, length, 3'd0};
      SKIP: ;
      default: word_valid = 1'b0;
    endcase
  end

  assign place = !queued_valid || queued_ready;
  assign emit = place && word_valid && phase != IDLE;
  assign in_ready = phase == MESSAGE && padding == BYTES && place;
  assign key_ready = phase == IDLE;
  assign start = queued_valid && start_ready;
  assign phase_done = padding == ENDED && !queued_valid && start_ready && (phase != DIGEST || !mac_valid || mac_ready);

  // After the word with the mark bit, is there still place for the length in this block?
  function automatic padding_t after_mark(input logic [POSITION-1:0] at);
    after_mark = at >= LENGTH_AT && at != LAST ? SKIP : ZEROS;
  endfunction

  always_ff @(posedge clk) begin
    if (queued_ready) queued_valid <= 1'b0;
    if (emit) begin
      queued <= word;
      queued_valid <= 1'b1;
      position <= position + 1'b1;
      case (padding)
        BYTES: begin
          length <= length + 16'(source_bytes);
          key_words <= {key_words[BLOCK-65:0], key_words[BLOCK-1-:64]};
          digest <= digest << 64;
          digest_word <= digest_word + 3'd1;
          if (source_last) padding <= keying ? ENDED : source_bytes == 4'd8 ? MARK : after_mark(position);
        end
        MARK: padding <= after_mark(position);
        SKIP: if (position == LAST) padding <= ZEROS;
        default: if (position == LAST) padding <= ENDED;
      endcase
    end

    if (start) fresh <= 1'b0;
    if (mac_ready) mac_valid <= 1'b0;
    if (phase_done || phase == IDLE) begin
      padding <= BYTES;
      position <= '0;
      length <= 16'(BLOCK / 8);
      fresh <= 1'b1;
      digest_word <= '0;
    end
    if (phase == IDLE) begin
      if (key_valid) phase <= KEY_INNER;
      else if (in_valid) phase <= MESSAGE;
      key_words <= key_block;
    end else if (phase_done) begin
      case (phase)
        KEY_INNER: begin
          inner <= state;
          phase <= KEY_OUTER;
        end
        KEY_OUTER: begin
          outer <= state;
          phase <= IDLE;
        end
        MESSAGE: begin
          digest <= {state, {(DIGEST_WORDS * 64 - STATE) {1'b0}}};
          phase  <= DIGEST;
        end
        default: begin
          mac <= mac_next;
          mac_valid <= 1'b1;
          phase <= IDLE;
        end
      endcase
    end
    if (rst) begin
      phase <= IDLE;
      queued_valid <= 1'b0;
      mac_valid <= 1'b0;
    end
  end

  always_comb begin
    case (phase)
      MESSAGE: start_state = inner;
      DIGEST: start_state = outer;
      default: start_state = STATE'(SHA512 ? SHA512_START : {352'd0, SHA1_START});
    endcase
    if (!fresh) start_state = state;
  end

  generate
    if (SHA512) begin : g_sha512
      sha512 hash (
          .clk,
          .rst,
          .start_valid(start),
          .start_ready,
          .start_state,
          .in_valid   (queued_valid),
          .in_ready   (queued_ready),
          .in_word    (queued),
          .state
      );
    end else begin : g_sha1
      sha1 hash (
          .clk,
          .rst,
          .start_valid(start),
          .start_ready,
          .start_state,
          .in_valid   (queued_valid),
          .in_ready   (queued_ready),
          .in_words   (queued),
          .state
      );
    end
  endgenerate
endmodule
