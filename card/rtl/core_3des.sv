// Triple DES of one key, both directions, in order: six units of half a DES each, two rounds a
// cycle, so a block enters every 4 cycles.
//
// A block is out after 24 cycles and one in the output register: six CBC streams fill the units, as
// do the independent blocks of CBC decryption. Blocks of the other direction, and a new key (34
// cycles), wait until the units are empty. First byte in the lowest bits.
module core_3des (
    input  logic         clk,
    input  logic         rst,
    input  logic         key_valid,
    output logic         key_ready,
    input  logic [191:0] key,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [ 63:0] in_block,
    input  logic         in_dec,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [ 63:0] out_block
);
  function automatic logic [63:0] initial_permutation(input logic [63:0] x);
    initial_permutation = {
      x[6], x[14], x[22], x[30], x[38], x[46], x[54], x[62], x[4], x[12], x[20], x[28], x[36], x[44], x[52], x[60], x[2],
      x[10], x[18], x[26], x[34], x[42], x[50], x[58], x[0], x[8], x[16], x[24], x[32], x[40], x[48], x[56], x[7], x[15],
      x[23], x[31], x[39], x[47], x[55], x[63], x[5], x[13], x[21], x[29], x[37], x[45], x[53], x[61], x[3], x[11], x[19],
      x[27], x[35], x[43], x[51], x[59], x[1], x[9], x[17], x[25], x[33], x[41], x[49], x[57]
    };
  endfunction

  function automatic logic [63:0] final_permutation(input logic [63:0] x);
    final_permutation = {
      x[24], x[56], x[16], x[48], x[8], x[40], x[0], x[32], x[25], x[57], x[17], x[49], x[9], x[41], x[1], x[33], x[26], x[58],
      x[18], x[50], x[10], x[42], x[2], x[34], x[27], x[59], x[19], x[51], x[11], x[43], x[3], x[35], x[28], x[60], x[20],
      x[52], x[12], x[44], x[4], x[36], x[29], x[61], x[21], x[53], x[13], x[45], x[5], x[37], x[30], x[62], x[22], x[54],
      x[14], x[46], x[6], x[38], x[31], x[63], x[23], x[55], x[15], x[47], x[7], x[39]
    };
  endfunction

  function automatic logic [47:0] expand(input logic [31:0] x);
    expand = {
      x[0], x[31], x[30], x[29], x[28], x[27], x[28], x[27], x[26], x[25], x[24], x[23], x[24], x[23], x[22], x[21], x[20],
      x[19], x[20], x[19], x[18], x[17], x[16], x[15], x[16], x[15], x[14], x[13], x[12], x[11], x[12], x[11], x[10], x[9],
      x[8], x[7], x[8], x[7], x[6], x[5], x[4], x[3], x[4], x[3], x[2], x[1], x[0], x[31]
    };
  endfunction

  // Keys. First the subkeys for encryption are written, then those for decryption, each where a
  // unit needs it in that direction: the first two units have K1 or K3, the last two the other, and
  // the middle ones run K2 against the others' direction.
  logic [63:0] keys[3];
  logic [47:0] subkeys[3];
  logic [191:0] key_data;
  logic loading;
  logic [4:0] load_step;  // direction, then index

  bytes_swap #(.BYTES(24)) swap_key (.x(key), .y(key_data));
  generate
    for (genvar k = 0; k < 3; k++) begin : g_key
      logic [63:0] kept;
      assign keys[k] = loading ? kept : key_data[(2-k)*64+:64];
      always_ff @(posedge clk) if (!loading) kept <= keys[k];
      des_subkeys schedule (
          .clk,
          .load  (!loading || load_step == 5'd15),
          .key   (keys[k]),
          .step  (loading),
          .index (load_step[3:0]),
          .subkey(subkeys[k])
      );
    end
  endgenerate

  // The beat: blocks enter, move on and leave when `quarter` is 3.
  logic [1:0] quarter, quarter_next;
  logic decrypting, turning, settled, move, empty;
  logic [5:0] full;

  // Each unit's halves, and the right one expanded with its subkey added, which spares a level of
  // logic in the round.
  logic [31:0] left[7];  // entering unit n; 6 is the output
  logic [31:0] right[7];
  logic [47:0] added[7];
  logic [47:0] first_subkey[7];      // that which the block entering unit n needs

  assign empty = full == 6'd0;
  assign move = quarter == 2'd3 && !(full[5] && out_valid && !out_ready);
  assign turning = in_valid && empty && in_dec != decrypting;
  assign in_ready = move && settled && in_dec == decrypting && !loading;
  assign key_ready = empty && !loading;
  // Rests at 3, where a block may enter.
  assign quarter_next = quarter == 2'd3 && (!move || (full[4:0] == 5'd0 && !(in_valid && in_ready))) ? 2'd3 : quarter + 2'd1;

  logic [63:0] block, entering, leaving, out_next;
  bytes_swap #(.BYTES(8)) swap_in (.x(in_block), .y(block));
  bytes_swap #(.BYTES(8)) swap_out (.x(leaving), .y(out_next));
  assign entering = initial_permutation(block);
  assign {left[0], right[0]} = entering;
  assign added[0] = expand(right[0]) ^ first_subkey[0];
  assign leaving = final_permutation({left[6], right[6]});
  assign first_subkey[6] = '0;

  generate
    for (genvar u = 0; u < 6; u++) begin : g_unit
      // Bank j has the subkeys of this half's rounds j, j + 2, j + 4 and j + 6, for both
      // directions.
      logic [47:0] next_subkey[2];  // round 1 of this cycle, and round 0 of the next
      logic [3:0] write_index;
      logic [47:0] write_subkey;
      logic backwards;
      assign backwards = load_step[4] != (u / 2 == 1);
      assign write_index = backwards ? ~load_step[3:0] : load_step[3:0];
      assign write_subkey = subkeys[load_step[4] ? 2 - u / 2 : u / 2];
      for (genvar j = 0; j < 2; j++) begin : g_bank
        (* ram_style = "distributed" *) logic [47:0] bank[8];
        logic [1:0] row;
        assign row = j == 0 ? quarter_next + 2'd1 : quarter_next;
        always_ff @(posedge clk) begin
          if (loading && {write_index[3], write_index[0]} == {1'(u), 1'(j)}) bank[{load_step[4], write_index[2:1]}] <= write_subkey;
          next_subkey[1-j] <= bank[{decrypting, row}];
        end
      end
      assign first_subkey[u] = next_subkey[1];

      logic [31:0] l_q, r_q;
      logic [47:0] x_q;
      for (genvar i = 0; i < 2; i++) begin : g_round
        logic [31:0] l, r, s, r_next;
        logic [47:0] x, x_next;
        if (i == 0) begin : g_first
          assign {l, r, x} = {l_q, r_q, x_q};
        end else begin : g_later
          assign {l, r, x} = {g_round[i-1].r, g_round[i-1].r_next, g_round[i-1].x_next};
        end
        des_substitute substitute (.x, .y(s));
        assign r_next = l ^ s;
        assign x_next = (expand(l) ^ next_subkey[i]) ^ expand(s);
      end
      if (u % 2 == 0) begin : g_to_second_half
        assign left[u+1]  = g_round[1].r;
        assign right[u+1] = g_round[1].r_next;
        assign added[u+1] = (expand(g_round[1].l) ^ first_subkey[u+1]) ^ expand(g_round[1].s);
      end else begin : g_to_next_des
        // The halves change places at the end, so the next unit's right half is known a round
        // early.
        assign left[u+1]  = g_round[1].r_next;
        assign right[u+1] = g_round[1].r;
        assign added[u+1] = expand(right[u+1]) ^ first_subkey[u+1];
      end

      always_ff @(posedge clk) begin
        if (quarter != 2'd3) begin
          l_q <= g_round[1].r;
          r_q <= g_round[1].r_next;
          x_q <= g_round[1].x_next;
        end else if (move) begin
          l_q <= left[u];
          r_q <= right[u];
          x_q <= added[u];
        end
      end
    end
  endgenerate

  always_ff @(posedge clk) begin
    quarter <= quarter_next;
    settled <= !turning && !loading;
    if (turning) decrypting <= in_dec;
    if (out_ready) out_valid <= 1'b0;
    if (move) begin
      full <= {full[4:0], in_valid && in_ready};
      out_valid <= full[5] || (out_valid && !out_ready);
      if (full[5]) out_block <= out_next;
    end

    if (key_valid && key_ready) begin
      loading   <= 1'b1;
      load_step <= 5'd0;
    end else if (loading) begin
      load_step <= load_step + 5'd1;
      if (load_step == 5'd31) loading <= 1'b0;
    end
    if (rst) begin
      quarter <= 2'd3;
      full <= 6'd0;
      out_valid <= 1'b0;
      loading <= 1'b0;
      decrypting <= 1'b0;
    end
  end
endmodule
