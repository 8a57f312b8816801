// Reads a pipeline's frames: the prefix, the SA, headers and payload apart. The payload goes to the
// function in the slot, and what the other half (pipeline_give) needs goes into its queue as items,
// so that this half is ahead of it by as many packets as the function takes. An item is a word of
// 64 bits with a kind:
//
//   BEGIN   a command; from bit 0: look 4, fill 1, off 14, to_mac, from_mac, decrypt, SA index 8, esp_off 16, ICV bytes 6
//   PIECE   1 to 8 bytes of the frame
//   RESULT  the function's blocks and its ICV come here
//   COMPARE 1 to 8 bytes of the ICV that came (decrypting)
//   END     code 8, cookie 32
//
// Some bits of the prefix and of an SA mean nothing to the card.
// verilator lint_off UNUSEDSIGNAL
module pipeline_take (
    input  logic         clk,
    input  logic         rst,
    // frames with a prefix, from frame_guard
    input  logic         s_valid,
    output logic         s_ready,
    input  logic [63:0]  s_data,
    input  logic         s_eof,
    input  logic [3:0]   s_bytes,
    input  logic         s_err,
    output logic         i_valid,
    input  logic         i_ready,
    output logic [2:0]   i_kind,
    output logic [3:0]   i_bytes,
    output logic [63:0]  i_data,
    input  logic         settled, // the other half is done with all items
    // the slot
    output logic         slot_load,
    output logic [3:0]   slot_id,
    input  logic         slot_known,
    input  logic         slot_loading,
    input  logic [3:0]   slot_active,
    output logic         cmd_valid,
    input  logic         cmd_ready,
    output logic         cmd_dec,
    output logic         cmd_null,
    output logic         cmd_rekey,
    output logic [255:0] cmd_key,
    output logic [1:0]   cmd_key_len,
    output logic [511:0] cmd_auth_key,
    output logic [31:0]  cmd_salt,
    output logic [127:0] cmd_iv,
    output logic [63:0]  cmd_esp,
    output logic         cmd_esn,
    output logic [31:0]  cmd_seq_hi,
    output logic         in_valid,
    input  logic         in_ready,
    output logic [127:0] in_block,
    output logic [4:0]   in_bytes,
    output logic         in_last,
    // for the parser of X2 and the filter
    output logic         map_write,
    output logic [31:0]  map_spi,
    output logic [7:0]   map_index,
    output logic         rule_clear,
    output logic         rule_accept,
    output logic         rule_write,
    output logic [3:0]   rule_number,
    output logic [3:0]   rule_word,
    output logic [63:0]  rule_data,
    output logic         page_begin, // the signatures' tables; the data is rule_data
    output logic         page_write,
    output logic [1:0]   page,
    output logic [9:0]   page_word
);
  localparam logic [7:0] OP_PACKET = 0, OP_INSTALL = 1, OP_REMOVE = 2, OP_SLOT = 3, OP_FILTER = 4, OP_SIGNATURE = 5;
  localparam logic [7:0] OK = 0, NO_SA = 2, NO_FUNCTION = 3, MALFORMED = 4, BROKEN = 5; // status codes
  localparam logic [2:0] I_BEGIN = 0, I_PIECE = 1, I_RESULT = 2, I_COMPARE = 3, I_END = 4;

  // The upper bits of a state say where its pieces go (nowhere, to the items, to the function), for
  // a path through all of the module begins with that.
  localparam logic [2:0] STAYS = 0, PASSES = 1, ITEMS = 2, BLOCKS = 4;
  localparam logic [6:0] PREFIX = {PASSES, 4'd0}, BODY = {PASSES, 4'd1}, DRAIN = {PASSES, 4'd2}, HEADER = {ITEMS, 4'd0}, ESP = {ITEMS, 4'd1},
      IV = {ITEMS, 4'd2}, COPY = {ITEMS, 4'd3}, ICV = {ITEMS, 4'd4}, PAYLOAD = {BLOCKS, 4'd0}, DISPATCH = {STAYS, 4'd0},
      LOOKUP = {STAYS, 4'd1}, CHECK = {STAYS, 4'd2}, BEGIN = {STAYS, 4'd3}, RESULT = {STAYS, 4'd4}, COMMAND = {STAYS, 4'd5},
      WIPE = {STAYS, 4'd6}, SETTLE = {STAYS, 4'd7}, SLOT_WAIT = {STAYS, 4'd8}, END = {STAYS, 4'd9};
  logic [6:0] state, after_begin;
  logic       passes, items, blocks;
  assign {blocks, items, passes} = state[6:4];

  // ---- the frame as bytes
  logic [63:0] head;
  logic [4:0]  avail;
  logic        ended, broken, stocked;
  stream_cut u_cut (.clk, .rst, .s_valid, .s_ready, .s_data, .s_eof, .s_bytes, .s_err, .head, .avail, .ended, .err(broken), .there(stocked),
      .full, .want(most), .go);

  // ---- prefix
  logic [255:0] prefix;
  logic [7:0]   op, functions, argument, index;
  logic         to_mac, decrypt, from_mac;
  logic [15:0]  length, esp_off, ip_off, esp_end;
  assign op = prefix[7:0];
  assign to_mac = prefix[8];
  assign decrypt = prefix[9];
  assign functions = prefix[23:16];
  assign argument = prefix[31:24];
  assign index = prefix[39:32];
  assign length = prefix[63:48];
  assign ip_off = prefix[143:128];
  assign esp_off = prefix[159:144];
  assign from_mac = prefix[176];
  assign esp_end = prefix[175:160] == '0 ? length : prefix[175:160];

  // ---- SA
  logic         sa_load, sa_done, sa_found, sa_changed, sa_write, sa_wipe;
  logic [7:0]   sa_index;
  logic [3:0]   sa_word;
  logic [9:0]   body_word;
  logic [31:0]  sa_spi;
  logic [7:0]   sa_alg, sa_key_bytes, sa_icv_bytes, sa_flags;
  sa_cache u_sa (
      .clk, .rst, .wr_valid(sa_write), .wr_index(sa_index), .wr_word(sa_word), .wr_data(rule_data), .wipe(sa_wipe),
      .load(sa_load), .load_index(index), .done(sa_done), .found(sa_found), .changed(sa_changed), .spi(sa_spi),
      .salt(cmd_salt), .alg(sa_alg), .key_bytes(sa_key_bytes), .icv_bytes(sa_icv_bytes), .flags(sa_flags), .key(cmd_key),
      .auth_key(cmd_auth_key));

  // In a register from CHECK on, for the SA and the prefix stand a clock before.
  logic [3:0]  need, need_now;
  logic [4:0]  iv_bytes, iv_bytes_now;
  logic [15:0] payload_off, payload_off_now, payload, payload_now;
  logic        no_cipher, no_cipher_now, sound, sound_now;
  esp_shape u_shape (
      .alg(sa_alg), .icv_bytes(sa_icv_bytes), .slot_active, .decrypt, .from_mac, .length, .esp_off, .esp_end, .need(need_now),
      .no_cipher(no_cipher_now), .iv_bytes(iv_bytes_now), .payload_off(payload_off_now), .payload(payload_now), .sound(sound_now));
  always_ff @(posedge clk)
    {need, no_cipher, iv_bytes, payload_off, payload, sound} <= {need_now, no_cipher_now, iv_bytes_now, payload_off_now, payload_now, sound_now};
  assign cmd_valid = state == COMMAND;
  assign cmd_dec = decrypt;
  assign cmd_null = no_cipher;
  assign cmd_key_len = sa_key_bytes == 8'd32 ? 2'd2 : sa_key_bytes == 8'd24 ? 2'd1 : 2'd0;
  assign cmd_esn = sa_flags[0];
  assign cmd_seq_hi = prefix[127:96];
  assign slot_id = argument[3:0];

  // ---- the next piece: `left` bytes of the present part are to come, `most` of them at once
  // (`some`: more than none), `final_piece` if that is all; the four are set together, by `part`,
  // so that the next piece is known early in the clock. A frame that ends early gives zeros from
  // there on (so that the function always gets what it was promised) and is malformed.
  logic [15:0] left;
  logic [3:0]  most, want;
  logic        final_piece, some, full, go;
  logic        eaten, there, move, to_end, short_frame, broken_frame;
  logic [63:0] piece;
  assign want = to_end && !full ? avail[3:0] : most;
  assign there = eaten || stocked;
  assign go = move && !eaten;
  assign piece = eaten ? '0 : head;

  function automatic logic [21:0] part(input logic [15:0] bytes);
    part = {bytes <= 16'd8, bytes != '0, bytes > 16'd8 ? 4'd8 : bytes[3:0], bytes};
  endfunction

  // ---- two pieces a block to the function
  logic        high;
  logic [63:0] low;
  logic        in_whole; // with this piece a block is whole
  assign in_whole = high || final_piece;
  assign in_valid = blocks && there && in_whole;
  assign in_block = high ? {piece, low} : {64'b0, piece};
  assign in_bytes = high ? 5'd8 + {1'b0, most} : {1'b0, most};
  assign in_last = final_piece;

  // ---- items
  logic [7:0]  code, code_now;
  logic        item_there;
  logic        crypto; // the packet goes through the function
  logic [13:0] look_off;
  assign code_now = broken_frame ? BROKEN : short_frame ? MALFORMED : code;
  // What came in ESP's tunnel mode is inspected inside: the inner header begins with the payload.
  assign look_off = crypto && decrypt && sa_flags[2] ? payload_off[13:0] : ip_off[13:0];
  always_comb begin
    i_valid = 1'b0;
    i_kind = I_PIECE;
    i_data = piece;
    i_bytes = want;
    case (state)
      BEGIN: begin
        i_valid = 1'b1;
        i_kind = I_BEGIN;
        i_data = {12'b0, sa_icv_bytes[5:0], esp_off, index, decrypt, from_mac, to_mac, look_off, !from_mac && !decrypt,
                  op == OP_PACKET ? functions[4:1] : 4'b0};
      end
      RESULT: begin
        i_valid = 1'b1;
        i_kind = I_RESULT;
      end
      ICV: i_kind = I_COMPARE;
      END: begin
        i_valid = 1'b1;
        i_kind = I_END;
        i_data = {24'b0, prefix[95:64], code_now};
      end
      default: ;
    endcase
    if (items) i_valid = item_there;
  end
  assign item_there = there && some && !(to_end && eaten);
  assign move = (passes && there) || (items && item_there && i_ready) || (blocks && there && (!in_whole || in_ready));

  // ---- commands
  logic [15:0] body_bytes;
  logic        sane, short_now, whole_word, installing, mapped;
  assign body_bytes = op == OP_INSTALL ? 16'd112 : op == OP_FILTER || op == OP_SIGNATURE ? length : 16'd0;
  // A table of rules has 128 bytes for each of up to 16, a page of the signatures 8 KiB at most.
  assign sane = prefix[47:40] == '0 && length == body_bytes && (op != OP_FILTER || (length[6:0] == '0 && length <= 16'd2048))
      && (op != OP_SIGNATURE || (length[2:0] == '0 && length <= 16'd8192 && argument[7:2] == '0));
  assign short_now = move && !to_end && (eaten || !full);
  assign sa_load = state == DISPATCH && op == OP_PACKET && functions[0];
  assign whole_word = state == BODY && full && !eaten;
  assign slot_load = state == SETTLE && settled && op == OP_SLOT;
  // A table that did not come whole drops everything.
  logic clear;
  assign clear = op == OP_FILTER && code == OK
      && ((state == SETTLE && settled) || (state == DRAIN && eaten && (short_frame || broken_frame)));
  // What is stored goes there a clock later, because memories are far apart.
  always_ff @(posedge clk) begin
    sa_write <= whole_word && op == OP_INSTALL && !rst;
    sa_wipe <= state == WIPE && !rst;
    {sa_index, sa_word} <= {index, body_word[3:0]};
    rule_clear <= clear && !rst;
    rule_accept <= argument[0] && state == SETTLE;
    rule_write <= whole_word && op == OP_FILTER && !rst;
    {rule_number, rule_word} <= body_word[7:0];
    page_begin <= op == OP_SIGNATURE && state == SETTLE && settled && !rst;
    page_write <= whole_word && op == OP_SIGNATURE && !rst;
    {page, page_word} <= {argument[1:0], body_word};
    rule_data <= head;
    // Only an SA that came whole takes a place in the map, for it may be another's.
    map_write <= state == DRAIN && eaten && installing && mapped && !short_frame && !broken_frame && !rst;
    {map_index, map_spi} <= {index, low[31:0]};
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= PREFIX;
      {final_piece, some, most, left} <= part(16'd32);
      eaten <= 1'b0;
      to_end <= 1'b0;
      short_frame <= 1'b0;
      broken_frame <= 1'b0;
      code <= OK;
      cmd_rekey <= 1'b1;
      high <= 1'b0;
      crypto <= 1'b0;
      installing <= 1'b0;
    end else begin
      if (go && ended && (!full || avail == {1'b0, most})) eaten <= 1'b1;
      if (!eaten && ended && broken) broken_frame <= 1'b1;
      if (short_now && state != DRAIN) short_frame <= 1'b1;
      if (move) {final_piece, some, most, left} <= part(left - {12'b0, most});
      if (slot_load) cmd_rekey <= 1'b1;

      case (state)
        PREFIX: if (move) begin
          prefix <= {piece, prefix[255:64]};
          if (final_piece) state <= DISPATCH;
        end
        DISPATCH: begin
          body_word <= '0;
          {final_piece, some, most, left} <= part(body_bytes);
          state <= BEGIN;
          after_begin <= DRAIN;
          if (short_frame || broken_frame) code <= MALFORMED;
          else if (op == OP_PACKET) begin
            {final_piece, some, most, left} <= part(from_mac ? '1 : length);
            to_end <= from_mac;
            if (length == '0 && !from_mac) code <= MALFORMED;
            else if (prefix[47:40] != '0 && functions[0]) code <= NO_SA;
            else if (functions[0]) state <= LOOKUP;
            else after_begin <= COPY;
          end else if (!sane) code <= MALFORMED;
          else case (op)
            OP_INSTALL, OP_REMOVE: begin
              installing <= op == OP_INSTALL;
              after_begin <= WIPE;
            end
            // None may touch what packets before it are in.
            OP_FILTER, OP_SIGNATURE: after_begin <= SETTLE;
            OP_SLOT: if (slot_known) after_begin <= SETTLE; else code <= NO_FUNCTION;
            default: code <= MALFORMED;
          endcase
        end
        LOOKUP: if (sa_done) begin
          if (sa_changed) cmd_rekey <= 1'b1;
          state <= CHECK;
          if (!sa_found || (from_mac && prefix[223:192] != sa_spi)) begin
            code <= NO_SA;
            after_begin <= from_mac ? COPY : DRAIN;
            state <= BEGIN;
          end
        end
        CHECK: begin
          state <= BEGIN;
          if (need != slot_active || need == '0) begin
            code <= NO_FUNCTION;
            after_begin <= from_mac ? COPY : DRAIN;
          end else if (!sound) begin
            code <= MALFORMED;
            after_begin <= DRAIN;
          end else begin
            crypto <= 1'b1;
            {final_piece, some, most, left} <= part(esp_off == '0 ? 16'd8 : esp_off);
            to_end <= 1'b0;
            after_begin <= esp_off == '0 ? ESP : HEADER;
          end
        end
        BEGIN: if (i_ready) state <= after_begin;
        HEADER: if (move && final_piece) begin
          {final_piece, some, most, left} <= part(16'd8);
          state <= ESP;
        end
        ESP: if (move) begin
          cmd_esp <= piece;
          {final_piece, some, most, left} <= part({11'b0, iv_bytes});
          cmd_iv <= '0;
          state <= no_cipher ? RESULT : IV;
        end
        IV: if (move) begin
          if (left == {11'b0, iv_bytes}) cmd_iv[63:0] <= piece; else cmd_iv[127:64] <= piece;
          if (final_piece) state <= RESULT;
        end
        RESULT: if (i_ready) state <= COMMAND;
        COMMAND: if (cmd_ready) begin
          cmd_rekey <= 1'b0;
          {final_piece, some, most, left} <= part(payload);
          high <= 1'b0;
          state <= PAYLOAD;
        end
        PAYLOAD: if (move) begin
          low <= piece;
          high <= !in_whole;
          if (final_piece) begin
            {final_piece, some, most, left} <= part({8'b0, sa_icv_bytes});
            state <= decrypt ? ICV : DRAIN;
          end
        end
        ICV: if (move && final_piece) state <= DRAIN;
        COPY: begin
          if (eaten && to_end) state <= DRAIN;
          else if (move && final_piece && !to_end) state <= DRAIN;
        end
        WIPE: begin
          body_word <= body_word == 10'd13 ? '0 : body_word + 1'b1;
          if (body_word == 10'd13) state <= installing ? BODY : DRAIN;
        end
        BODY: if (move) begin
          // An SA's SPI and flags; a mapped SPI with ESN would need the high half that the packet
          // does not carry.
          if (body_word == '0) low <= piece;
          if (body_word == 10'd1) mapped <= piece[25] && !piece[24];
          body_word <= body_word + 1'b1;
          if (final_piece) state <= DRAIN;
        end
        SETTLE: if (settled) state <= op == OP_SLOT ? SLOT_WAIT : !some ? DRAIN : BODY;
        SLOT_WAIT: if (!slot_loading) state <= DRAIN;
        DRAIN: begin
          {final_piece, some, most, left} <= part('1);
          if (eaten) begin
            // Of an SA that did not come whole nothing stays.
            state <= installing && (short_frame || broken_frame) ? WIPE : END;
            installing <= 1'b0;
            body_word <= '0;
          end
        end
        default: if (i_ready) begin
          state <= PREFIX;
          {final_piece, some, most, left} <= part(16'd32);
          eaten <= 1'b0;
          to_end <= 1'b0;
          short_frame <= 1'b0;
          broken_frame <= 1'b0;
          code <= OK;
          crypto <= 1'b0;
        end
      endcase
    end
  end
endmodule
