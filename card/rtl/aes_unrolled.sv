// AES encryption with a place for every round: a block a cycle, out after 32 cycles. Ports and
// slots are those of `aes_iter`.
//
// A block of a shorter key passes the first two or four rounds untouched, so that all end in the
// same last round, in order.
module aes_unrolled #(
    parameter bit BLOCK_RAM = 1,
    parameter int SLOTS = 2,
    parameter int TAG = 1
) (
    input  logic                     clk,
    input  logic                     rst,
    input  logic                     key_valid,
    output logic                     key_ready,
    input  logic [$clog2(SLOTS)-1:0] key_slot,   // no block of this slot may be in the core
    input  logic [            255:0] key_data,
    input  logic [              1:0] key_len,
    input  logic                     in_valid,
    output logic                     in_ready,
    input  logic [            127:0] in_data,
    input  logic [$clog2(SLOTS)-1:0] in_slot,
    input  logic [          TAG-1:0] in_tag,
    output logic                     out_valid,
    input  logic                     out_ready,
    output logic [            127:0] out_data,
    output logic [          TAG-1:0] out_tag
);
  localparam int SLOT = $clog2(SLOTS);
  localparam int ROUNDS = 14;
  localparam int PLACES = 64;  // more than the blocks in flight, so that the output never refuses

  logic [SLOT-1:0] loading;
  logic [3:0] skipped[SLOTS];  // rounds that blocks of this slot pass: 4, 2 or 0
  logic round_valid;
  logic [3:0] round_index;
  logic [127:0] round_key;
  (* ram_style = "distributed" *) logic [127:0] first_keys[SLOTS];

  aes_key expander (
      .clk,
      .rst,
      .key_valid,
      .key_ready,
      .key_data,
      .key_len,
      .round_valid,
      .round_index,
      .round_key
  );

  always_ff @(posedge clk) begin
    if (key_valid && key_ready) begin
      loading <= key_slot;
      skipped[key_slot] <= 4'd4 - {1'b0, key_len, 1'b0};
    end
    if (round_valid && round_index == 0) first_keys[loading] <= round_key;
  end

  logic [6:0] places;
  logic [ROUNDS:0] full;
  logic [127:0] data[ROUNDS+1];
  logic [SLOT-1:0] slot[ROUNDS+1];
  logic [3:0] skip[ROUNDS+1];
  logic [TAG-1:0] tag[ROUNDS+1];

  assign in_ready = places != 0;

  always_ff @(posedge clk) begin
    full[0] <= in_valid && in_ready && !rst;
    data[0] <= in_data ^ first_keys[in_slot];
    slot[0] <= in_slot;
    skip[0] <= skipped[in_slot];
    tag[0]  <= in_tag;
    places  <= rst ? 7'(PLACES) : places - 7'(in_valid && in_ready) + 7'(out_valid && out_ready);
  end

  generate
    for (genvar n = 1; n <= ROUNDS; n++) begin : g_round
      // Between the two stages.
      (* ram_style = "distributed" *) logic [127:0] keys[SLOTS];
      logic half_full;
      logic [127:0] substituted, mixed, key;
      logic [SLOT-1:0] half_slot;
      logic [3:0] half_skip;
      logic [TAG-1:0] half_tag;

      aes_sub #(.BLOCK_RAM(BLOCK_RAM)) sub (
          .clk,
          .x  (data[n-1]),
          .y_q(substituted)
      );
      if (n == ROUNDS) begin : g_last
        assign mixed = substituted;
      end else begin : g_mix
        aes_mix mix (.x(substituted), .y(mixed));
      end

      always_ff @(posedge clk) begin
        if (round_valid && round_index != 0 && round_index + skipped[loading] == 4'(n)) keys[loading] <= round_key;
        half_full <= full[n-1] && !rst;
        half_slot <= slot[n-1];
        half_skip <= skip[n-1];
        half_tag <= tag[n-1];
        key <= keys[slot[n-1]];
        full[n] <= half_full && !rst;
        slot[n] <= half_slot;
        skip[n] <= half_skip;
        tag[n] <= half_tag;
      end

      if (n <= 4) begin : g_skip
        logic [127:0] passed;
        always_ff @(posedge clk) begin
          passed  <= data[n-1];
          data[n] <= 4'(n) <= half_skip ? passed : mixed ^ key;
        end
      end else begin : g_always
        always_ff @(posedge clk) data[n] <= mixed ^ key;
      end
    end
  endgenerate

  logic unused, unused_ready;
  assign unused = &{1'b0, slot[ROUNDS], skip[ROUNDS], unused_ready};
  core_fifo #(
      .WIDTH(128 + TAG),
      .DEPTH(PLACES)
  ) output_fifo (
      .clk,
      .rst,
      .in_valid (full[ROUNDS]),
      .in_ready (unused_ready),
      .in_data  ({tag[ROUNDS], data[ROUNDS]}),
      .out_valid,
      .out_ready,
      .out_data ({out_tag, out_data})
  );
endmodule
