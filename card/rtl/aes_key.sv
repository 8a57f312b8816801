// Expands AES keys (FIPS-197, 5.2) a word at a time, and gives each round key to the core that
// keeps them.
//
// The first words are the key's own: for them the recurrence w[i] = w[i - Nk] ^ t runs with t = 0,
// which turns the window once. A word that needs the S-box takes two cycles: 56, 62 and 75 cycles
// from one key to the next for 128, 192 and 256 bits.
module aes_key (
    input  logic         clk,
    input  logic         rst,
    input  logic         key_valid,
    output logic         key_ready,
    input  logic [255:0] key_data,      // the key's first byte is the most significant
    input  logic [  1:0] key_len,       // 0: 128 bits, 1: 192, 2: 256
    output logic         round_valid,   // never waits
    output logic [  3:0] round_index,
    output logic [127:0] round_key
);
  logic [31:0] window[8];  // the last eight words, window[7] the newest
  logic [1:0] len;
  logic [5:0] word;        // index i of the word in the making
  logic [2:0] phase;       // i % Nk
  logic turned;            // the key's own words are out
  logic looked_up;         // the S-box has what this word needs
  logic busy;
  logic [7:0] rcon;
  logic [95:0] collected;  // the round key's words so far

  logic [31:0] sub, t, oldest, made;
  logic [2:0] last_phase;
  logic needs_sub, step;

  aes_sbox high (
      .clk,
      .a  (window[7][31:24]),
      .b  (window[7][23:16]),
      .a_q(sub[31:24]),
      .b_q(sub[23:16])
  );
  aes_sbox low (
      .clk,
      .a  (window[7][15:8]),
      .b  (window[7][7:0]),
      .a_q(sub[15:8]),
      .b_q(sub[7:0])
  );

  always_comb begin
    case (len)
      2'd0: begin
        oldest = window[4];
        last_phase = 3'd3;
      end
      2'd1: begin
        oldest = window[2];
        last_phase = 3'd5;
      end
      default: begin
        oldest = window[0];
        last_phase = 3'd7;
      end
    endcase
    needs_sub = turned && (phase == 0 || (len == 2'd2 && phase == 3'd4));
    if (!turned) t = 32'd0;
    else if (phase == 0) t = {sub[23:0], sub[31:24]} ^ {rcon, 24'd0};
    else if (needs_sub) t = sub;
    else t = window[7];
    made = oldest ^ t;
    step = busy && (!needs_sub || looked_up);
  end

  // Not in the cycle in which the last round key leaves: who keeps it writes it at the end of that
  // cycle.
  assign key_ready = !busy && !round_valid;

  always_ff @(posedge clk) begin
    round_valid <= 1'b0;
    looked_up   <= busy && needs_sub && !looked_up;
    if (key_valid && key_ready) begin
      busy <= 1'b1;
      len <= key_len;
      word <= 6'd0;
      phase <= 3'd0;
      turned <= 1'b0;
      rcon <= 8'h01;
      for (int i = 0; i < 8; i++) begin
        case (key_len)
          2'd0: window[i] <= i < 4 ? 32'd0 : key_data[(11-i)*32+:32];
          2'd1: window[i] <= i < 2 ? 32'd0 : key_data[(9-i)*32+:32];
          default: window[i] <= key_data[(7-i)*32+:32];
        endcase
      end
    end else if (step) begin
      for (int i = 0; i < 7; i++) window[i] <= window[i+1];
      window[7] <= made;
      collected <= {collected[63:0], made};
      word <= word + 6'd1;
      phase <= phase == last_phase ? 3'd0 : phase + 3'd1;
      if (phase == last_phase) turned <= 1'b1;
      if (turned && phase == 0) rcon <= {rcon[6:0], 1'b0} ^ (rcon[7] ? 8'h1b : 8'h00);
      if (word[1:0] == 2'd3) begin
        round_valid <= 1'b1;
        round_index <= word[5:2];
        round_key   <= {collected, made};
        if (word[5:2] == 4'd10 + {1'b0, len, 1'b0}) busy <= 1'b0;
      end
    end
    if (rst) busy <= 1'b0;
  end
endmodule
