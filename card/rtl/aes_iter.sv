// AES encryption, or decryption, one block in 10, 12 or 14 cycles: a round has two pipeline stages,
// and two blocks share it.
//
// Counter mode fills both places from one packet; CBC encryption needs two packets. Blocks come out
// in the order they went in: one of another key length waits until the block ahead of it is out.
// Nothing stalls inside: a block enters only when the output has a place for it.
module aes_iter #(
    parameter bit INVERSE = 0,
    parameter bit BLOCK_RAM = 1,  // S-boxes in block RAMs, or in logic
    parameter int SLOTS = 2,      // expanded keys, a power of two
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
  localparam int PLACES = 4;  // blocks from entry to the taking of the output

  // Expanded keys. The key that whitens a new block is also kept apart, as both are read in one
  // cycle.
  (* ram_style = "distributed" *) logic [127:0] keys[SLOTS*16];
  (* ram_style = "distributed" *) logic [127:0] first_keys[SLOTS];
  logic [3:0] rounds[SLOTS];
  logic [SLOT-1:0] loading;
  logic round_valid;
  logic [3:0] round_index;
  logic [127:0] round_key;

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
      rounds[key_slot] <= 4'd10 + {1'b0, key_len, 1'b0};
    end
    if (round_valid) begin
      keys[{loading, round_index}] <= round_key;
      if (round_index == (INVERSE ? rounds[loading] : 4'd0)) first_keys[loading] <= round_key;
    end
  end

  // A block waits here, whitened, for its place in the loop.
  logic queued;
  logic [127:0] queued_data;
  logic [SLOT-1:0] queued_slot;
  logic [3:0] queued_rounds;
  logic [TAG-1:0] queued_tag;
  // The loop: what enters the S-boxes (early), and what has left them (late).
  logic early, late;
  logic [127:0] early_data, late_data;
  logic [SLOT-1:0] early_slot, late_slot;
  logic [3:0] early_rounds, late_rounds;
  logic [3:0] early_round, late_round;  // 1 up to rounds
  logic [TAG-1:0] early_tag, late_tag;
  logic [127:0] late_key;
  logic [127:0] mixed, looped, finished;
  logic late_last, enter;
  logic [2:0] places;

  aes_sub #(
      .INVERSE  (INVERSE),
      .BLOCK_RAM(BLOCK_RAM)
  ) sub (
      .clk,
      .x  (early_data),
      .y_q(late_data)
  );

  aes_mix #(
      .INVERSE(INVERSE)
  ) mix (
      .x(INVERSE ? finished : late_data),
      .y(mixed)
  );

  assign finished = late_data ^ late_key;
  assign looped = INVERSE ? mixed : mixed ^ late_key;
  assign enter = queued && !(late && !late_last) && !(early && early_rounds != queued_rounds);
  assign in_ready = (!queued || enter) && places != 0;

  always_ff @(posedge clk) begin
    if (in_valid && in_ready) begin
      queued <= 1'b1;
      queued_data <= in_data ^ first_keys[in_slot];
      queued_slot <= in_slot;
      queued_rounds <= rounds[in_slot];
      queued_tag <= in_tag;
    end else if (enter) queued <= 1'b0;

    late <= early;
    late_slot <= early_slot;
    late_rounds <= early_rounds;
    late_round <= early_round;
    late_last <= early_round == early_rounds;
    late_tag <= early_tag;
    late_key <= keys[{early_slot, INVERSE ? early_rounds - early_round : early_round}];

    early <= enter || (late && !late_last);
    early_data <= enter ? queued_data : looped;
    early_slot <= enter ? queued_slot : late_slot;
    early_rounds <= enter ? queued_rounds : late_rounds;
    early_round <= enter ? 4'd1 : late_round + 4'd1;
    early_tag <= enter ? queued_tag : late_tag;

    places <= places - 3'(in_valid && in_ready) + 3'(out_valid && out_ready);
    if (rst) begin
      queued <= 1'b0;
      early <= 1'b0;
      late  <= 1'b0;
      places <= 3'(PLACES);
    end
  end

  // A place was kept for it: the output never refuses.
  logic done;
  logic [127:0] done_data;
  logic [TAG-1:0] done_tag;
  logic unused_ready;

  always_ff @(posedge clk) begin
    done <= late && late_last && !rst;
    done_data <= finished;
    done_tag <= late_tag;
  end

  core_fifo #(
      .WIDTH(128 + TAG),
      .DEPTH(PLACES)
  ) output_fifo (
      .clk,
      .rst,
      .in_valid (done),
      .in_ready (unused_ready),
      .in_data  ({done_tag, done_data}),
      .out_valid,
      .out_ready,
      .out_data ({out_tag, out_data})
  );
endmodule
