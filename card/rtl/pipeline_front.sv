// The first half of X1 and X2: reads the prefix, keeps the SA cache, separates headers from payload, gives the payload to the
// function in the slot, and puts headers, result and ICV together again. One packet at a time; `fin` ends each with a
// verdict. What of the frame reached `j_` before a failure is the tail's to drop.
// Some bits of the prefix and of an SA mean nothing to the card, and not each function takes all of a command.
// verilator lint_off UNUSEDSIGNAL
module pipeline_front #(
    parameter int FUNCTIONS = 2,
    parameter int LOAD_CYCLES = 64
) (
    input  logic         clk,
    input  logic         rst,
    // frames with a prefix, from frame_guard
    input  logic         s_valid,
    output logic         s_ready,
    input  logic [63:0]  s_data,
    input  logic         s_eof,
    input  logic [3:0]   s_bytes,
    input  logic         s_err,
    // pieces of the finished frame, for stream_join
    output logic         j_valid,
    input  logic         j_ready,
    output logic [63:0]  j_data,
    output logic [3:0]   j_bytes,
    output logic         j_last,
    // the plan for the inspection, from before the frame's first piece to `fin`
    output logic [3:0]   look,      // IP checksum, UDP checksum, filter, signature
    output logic         look_fill, // fill the checksums in (else check them)
    output logic [13:0]  look_off,  // of the IPv4 header in the outgoing frame
    output logic         fin_valid,
    input  logic         fin_ready,
    output logic         fin_frame,   // pieces were given, and j_last
    output logic         fin_to_mac,
    output logic [127:0] fin_status,
    // for the parser of X2 and the filter
    output logic         map_write,
    output logic [31:0]  map_spi,
    output logic [7:0]   map_index,
    output logic         rule_write,
    output logic [3:0]   rule_number,
    output logic [1:0]   rule_word,
    output logic [63:0]  rule_data,
    output logic [3:0]   slot_active
);
  localparam logic [7:0] OP_PACKET = 0, OP_INSTALL = 1, OP_REMOVE = 2, OP_SLOT = 3, OP_FILTER = 4;
  localparam logic [7:0] OK = 0, BAD_ICV = 1, NO_SA = 2, NO_FUNCTION = 3, MALFORMED = 4, BROKEN = 5; // status codes

  localparam logic [4:0] PREFIX = 0, DISPATCH = 1, LOOKUP = 2, CHECK = 3, HEADER = 4, ESP = 5, IV = 6, COMMAND = 7,
      PAYLOAD = 8, RESULT = 9, ICV_IN = 10, ICV_WAIT = 11, ICV_OUT = 12, COPY = 13, BODY = 14, SLOT_WAIT = 15, DRAIN = 16,
      LAST = 17, REPORT = 18;
  logic [4:0] state;

  // ---- the frame as bytes
  logic [63:0] head;
  logic [4:0]  avail;
  logic        ended, broken;
  logic [3:0]  take;
  stream_cut u_cut (.clk, .rst, .s_valid, .s_ready, .s_data, .s_eof, .s_bytes, .s_err, .head, .avail, .ended, .err(broken), .take);

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
  logic         sa_load, sa_done, sa_found, sa_changed, sa_write, sa_remove;
  logic [3:0]   body_word;
  logic [31:0]  sa_spi, sa_salt;
  logic [7:0]   sa_alg, sa_key_bytes, sa_icv_bytes, sa_flags;
  logic [255:0] sa_key;
  logic [511:0] sa_auth_key;
  sa_cache u_sa (
      .clk, .rst, .wr_valid(sa_write), .wr_index(index), .wr_word(body_word), .wr_data(head), .remove(sa_remove),
      .load(sa_load), .load_index(index), .done(sa_done), .found(sa_found), .changed(sa_changed), .spi(sa_spi),
      .salt(sa_salt), .alg(sa_alg), .key_bytes(sa_key_bytes), .icv_bytes(sa_icv_bytes), .flags(sa_flags), .key(sa_key),
      .auth_key(sa_auth_key));

  logic [3:0] need; // the function that the SA's algorithms ask for
  logic [4:0] iv_bytes, block_bytes;
  logic       no_cipher;
  assign no_cipher = sa_alg[3:0] == '0;
  always_comb begin
    case (sa_alg)
      8'h01: need = 4'd1;
      8'h12: need = 4'd2;
      8'h13: need = 4'd3;
      8'h14: need = 4'd4;
      8'h22: need = 4'd5;
      8'h10: need = slot_active >= 4'd2 && slot_active <= 4'd4 ? slot_active : 4'd2; // only its hash
      8'h20: need = 4'd5;
      default: need = 4'd0;
    endcase
    iv_bytes = no_cipher ? 5'd0 : sa_alg[3:0] == 4'd3 ? 5'd16 : 5'd8;
    block_bytes = sa_alg[3:0] == 4'd3 ? 5'd16 : sa_alg[3:0] == 4'd4 ? 5'd8 : 5'd1;
  end

  // ---- slot
  logic         slot_load, slot_known, slot_loading;
  logic         cmd_valid, cmd_ready, rekey;
  logic         in_valid, in_ready, in_last, out_valid, out_ready, out_last, icv_valid, icv_ready;
  logic [127:0] in_block, out_block, iv;
  logic [4:0]   in_bytes, out_bytes;
  logic [255:0] icv, icv_seen;
  logic [1:0]   icv_at; // words of the ICV read
  logic [63:0]  esp;
  slot #(.FUNCTIONS(FUNCTIONS), .LOAD_CYCLES(LOAD_CYCLES)) u_slot (
      .clk, .rst, .load(slot_load), .load_id(argument[3:0]), .load_known(slot_known), .loading(slot_loading),
      .active(slot_active), .cmd_valid, .cmd_ready, .cmd_dec(decrypt), .cmd_null(no_cipher), .cmd_rekey(rekey), .cmd_key(sa_key),
      .cmd_key_len(sa_key_bytes == 8'd32 ? 2'd2 : sa_key_bytes == 8'd24 ? 2'd1 : 2'd0), .cmd_auth_key(sa_auth_key),
      .cmd_salt(sa_salt), .cmd_iv(iv), .cmd_esp(esp), .cmd_esn(sa_flags[0]), .cmd_seq_hi(prefix[127:96]),
      .in_valid, .in_ready, .in_block, .in_bytes, .in_last, .out_valid, .out_ready, .out_block, .out_bytes, .out_last,
      .icv_valid, .icv_ready, .icv);


  // ---- the next piece: `left` bytes of the present part are to come, `want` of them at once. A frame that ends early gives
  // zeros from there on (so that the function always gets what it was promised) and is malformed.
  logic [15:0] left;
  logic [3:0]  want, got;
  logic        eaten, there, move, to_end, short_frame, broken_frame;
  logic [63:0] piece;
  assign want = to_end && ended && avail < 5'd8 ? avail[3:0] : left > 16'd8 ? 4'd8 : left[3:0];
  assign got = eaten ? 4'd0 : avail < {1'b0, want} ? avail[3:0] : want;
  assign there = eaten || ended || avail >= {1'b0, want};
  assign piece = eaten ? '0 : head;

  // ---- extent of the payload
  logic [15:0] payload_off, fixed, payload;
  logic        sound;
  assign payload_off = esp_off + 16'd8 + {11'b0, iv_bytes};
  assign fixed = payload_off + (decrypt ? {8'b0, sa_icv_bytes} : 16'd0);
  assign payload = esp_end - fixed;
  assign sound = esp_off[15:14] == '0 && esp_end[15:14] == '0 && esp_end > fixed && (from_mac || esp_end <= length)
      && (payload[3:0] & 4'(block_bytes - 5'd1)) == '0 && sa_icv_bytes <= 8'd32;

  // ---- pieces to the function, two a block, and its blocks to the frame, in two pieces
  logic        high, half;
  logic [63:0] low;
  logic        in_whole; // with this piece a block is whole
  assign in_whole = high || left <= 16'd8;
  assign in_valid = state == PAYLOAD && there && in_whole;
  assign in_block = high ? {piece, low} : {64'b0, piece};
  assign in_bytes = high ? 5'd8 + {1'b0, want} : {1'b0, want};
  assign in_last = left <= 16'd8;
  logic out_state;
  assign out_state = state == PAYLOAD || state == RESULT;
  assign out_ready = out_state && j_ready && (half || out_bytes <= 5'd8);
  assign icv_ready = state == ICV_WAIT;

  logic icv_equal;
  always_comb begin
    icv_equal = 1'b1;
    for (int i = 0; i < 32; i++)
      if (8'(i) < sa_icv_bytes && icv[8*i +: 8] != icv_seen[8*i +: 8]) icv_equal = 1'b0;
  end

  // ---- a piece moves
  always_comb begin
    j_valid = 1'b0;
    j_data = piece;
    j_bytes = want;
    j_last = 1'b0;
    move = 1'b0;
    case (state)
      PREFIX, BODY, ICV_IN, DRAIN: move = there;
      HEADER, ESP, IV, COPY: begin
        j_valid = there && left != '0 && !(to_end && eaten);
        move = j_valid && j_ready;
      end
      PAYLOAD, RESULT: begin
        j_valid = out_valid;
        j_data = half ? out_block[127:64] : out_block[63:0];
        j_bytes = half ? 4'(out_bytes - 5'd8) : out_bytes > 5'd8 ? 4'd8 : out_bytes[3:0];
        move = state == PAYLOAD && there && (!in_whole || in_ready);
      end
      ICV_OUT: begin
        j_valid = 1'b1;
        j_data = icv_seen[63:0];
        move = j_ready;
      end
      LAST: begin
        j_valid = 1'b1;
        j_bytes = '0;
        j_last = 1'b1;
      end
      default: ;
    endcase
    take = state == ICV_OUT || !move ? '0 : got;
  end

  // ---- commands
  logic [15:0] body_bytes;
  logic        sane;
  assign body_bytes = op == OP_INSTALL ? 16'd112 : op == OP_FILTER ? 16'd32 : 16'd0;
  assign sane = prefix[47:40] == '0 && length == body_bytes;
  assign sa_load = state == DISPATCH && op == OP_PACKET && functions[0];
  assign sa_write = state == BODY && op == OP_INSTALL && move && !short_now;
  assign sa_remove = state == DISPATCH && (op == OP_INSTALL || op == OP_REMOVE) && sane;
  assign slot_load = state == DISPATCH && op == OP_SLOT && sane;
  assign rule_write = state == BODY && op == OP_FILTER && move && !short_now;
  assign rule_number = argument[3:0];
  assign rule_word = body_word[1:0];
  assign rule_data = piece;
  logic short_now;
  assign short_now = move && got != want && state != ICV_OUT;
  // Word 1 of an SA has its flags; a mapped SPI with ESN would need the high half that the packet does not carry.
  assign map_write = sa_write && body_word == 4'd1 && piece[25] && !piece[24];
  assign map_spi = low[31:0];
  assign map_index = index;

  assign cmd_valid = state == COMMAND;
  assign fin_valid = state == REPORT;

  // ---- verdict
  logic [7:0]  code, code_now;
  logic [15:0] held;
  logic        given, done_crypto, icv_right;
  assign code_now = broken_frame ? BROKEN : short_frame ? MALFORMED : code;
  assign fin_frame = given;
  assign fin_to_mac = to_mac;
  assign fin_status = {held, esp_off, prefix[95:64], 16'b0, 8'b0, index, 8'hff, 8'h00,
                       1'b0, from_mac, done_crypto, 4'b0, icv_right, code_now};
  assign look = op == OP_PACKET ? functions[4:1] : 4'b0;
  assign look_fill = !from_mac && !decrypt;
  // What came in ESP's tunnel mode is inspected inside: the inner header begins with the payload.
  assign look_off = functions[0] && decrypt && sa_flags[2] && !to_end ? payload_off[13:0] : ip_off[13:0];

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= PREFIX;
      left <= 16'd32;
      eaten <= 1'b0;
      to_end <= 1'b0;
      short_frame <= 1'b0;
      broken_frame <= 1'b0;
      given <= 1'b0;
      code <= OK;
      rekey <= 1'b1;
      high <= 1'b0;
      half <= 1'b0;
      held <= '0;
      done_crypto <= 1'b0;
      icv_right <= 1'b0;
    end else begin
      if (!eaten && ended && avail == {1'b0, take}) eaten <= 1'b1;
      if (!eaten && ended && broken) broken_frame <= 1'b1;
      if (short_now && !to_end && state != DRAIN) short_frame <= 1'b1;
      if (move) left <= left - {12'b0, want};
      if (j_valid && j_ready) given <= 1'b1;
      if (slot_load) rekey <= 1'b1;
      if (state >= COMMAND && state <= ICV_WAIT && held != '1) held <= held + 1'b1;

      case (state)
        PREFIX: if (move) begin
          prefix <= {piece, prefix[255:64]};
          if (left == 16'd8) state <= DISPATCH;
        end
        DISPATCH: begin
          body_word <= '0;
          left <= body_bytes;
          state <= DRAIN;
          if (short_frame || broken_frame) code <= MALFORMED;
          else if (op == OP_PACKET) begin
            left <= from_mac ? '1 : length;
            to_end <= from_mac;
            if (length == '0 && !from_mac) code <= MALFORMED;
            else if (prefix[47:40] != '0 && functions[0]) code <= NO_SA;
            else state <= functions[0] ? LOOKUP : COPY;
          end else if (!sane) code <= MALFORMED;
          else case (op)
            OP_INSTALL, OP_FILTER: state <= BODY;
            OP_REMOVE: ;
            OP_SLOT: if (slot_known) state <= SLOT_WAIT; else code <= NO_FUNCTION;
            default: code <= MALFORMED;
          endcase
        end
        LOOKUP: if (sa_done) begin
          if (sa_changed) rekey <= 1'b1;
          if (!sa_found || (from_mac && prefix[223:192] != sa_spi)) begin
            code <= NO_SA;
            state <= from_mac ? COPY : DRAIN;
          end else state <= CHECK;
        end
        CHECK: begin
          if (need != slot_active || need == '0) begin
            code <= NO_FUNCTION;
            state <= from_mac ? COPY : DRAIN;
          end else if (!sound) begin
            code <= MALFORMED;
            state <= DRAIN;
          end else begin
            left <= esp_off == '0 ? 16'd8 : esp_off;
            to_end <= 1'b0;
            state <= esp_off == '0 ? ESP : HEADER;
          end
        end
        HEADER: if (move && left <= 16'd8) begin
          left <= 16'd8;
          state <= ESP;
        end
        ESP: if (move) begin
          esp <= piece;
          left <= {11'b0, iv_bytes};
          iv <= '0;
          state <= no_cipher ? COMMAND : IV;
        end
        IV: if (move) begin
          if (left == {11'b0, iv_bytes}) iv[63:0] <= piece; else iv[127:64] <= piece;
          if (left == 16'd8) state <= COMMAND;
        end
        COMMAND: if (cmd_ready) begin
          rekey <= 1'b0;
          left <= payload;
          high <= 1'b0;
          half <= 1'b0;
          state <= PAYLOAD;
        end
        PAYLOAD: begin
          if (move) begin
            low <= piece;
            high <= !in_whole;
            if (left <= 16'd8) state <= RESULT;
          end
        end
        RESULT: if (out_valid && out_ready && out_last) begin
          left <= {8'b0, sa_icv_bytes};
          icv_at <= '0;
          state <= decrypt && sa_icv_bytes != '0 ? ICV_IN : ICV_WAIT;
        end
        ICV_IN: if (move) begin
          icv_seen[{icv_at, 6'b0} +: 64] <= piece;
          icv_at <= icv_at + 1'b1;
          if (left <= 16'd8) state <= ICV_WAIT;
        end
        ICV_WAIT: if (icv_valid) begin
          done_crypto <= 1'b1;
          icv_right <= !decrypt || icv_equal;
          if (decrypt && !icv_equal) code <= BAD_ICV;
          if (!decrypt) icv_seen <= icv;
          state <= decrypt || sa_icv_bytes == '0 ? DRAIN : ICV_OUT;
        end
        ICV_OUT: if (move) begin
          icv_seen <= icv_seen >> 64;
          if (left <= 16'd8) state <= DRAIN;
        end
        COPY: begin
          if (eaten && to_end) state <= DRAIN;
          else if (move && left <= 16'd8 && !to_end) state <= DRAIN;
        end
        BODY: if (move) begin
          if (body_word == '0) low <= piece;
          body_word <= body_word + 1'b1;
          if (left == 16'd8) state <= DRAIN;
        end
        SLOT_WAIT: if (!slot_loading) state <= DRAIN;
        DRAIN: begin
          left <= '1;
          if (eaten) state <= given ? LAST : REPORT;
        end
        LAST: if (j_ready) state <= REPORT;
        default: if (fin_ready) begin
          state <= PREFIX;
          left <= 16'd32;
          eaten <= 1'b0;
          to_end <= 1'b0;
          short_frame <= 1'b0;
          broken_frame <= 1'b0;
          given <= 1'b0;
          code <= OK;
          held <= '0;
          done_crypto <= 1'b0;
          icv_right <= 1'b0;
        end
      endcase

      if (out_state && j_valid && j_ready) half <= !half && out_bytes > 5'd8;
    end
  end
endmodule
