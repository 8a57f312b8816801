// AES blocks of one key, both directions, in order: 10, 12 or 14 cycles a block with two of one
// direction in flight.
//
// A block of the other direction, and a new key, wait until the blocks in flight are out. First
// byte in the lowest bits.
// verilator lint_off PINCONNECTEMPTY
module core_aes #(
    parameter bit OPENS = 1 // decrypts as well; without it in_dec is 0
) (
    input  logic         clk,
    input  logic         rst,
    input  logic         key_valid,
    output logic         key_ready,
    input  logic [255:0] key,
    input  logic [  1:0] key_len,
    input  logic         in_valid,
    output logic         in_ready,
    input  logic [127:0] in_block,
    input  logic         in_dec,
    output logic         out_valid,
    input  logic         out_ready,
    output logic [127:0] out_block
);
  logic [255:0] key_data;
  logic [127:0] block, sealed, opened, made;
  logic seal_key_ready, open_key_ready, seal_ready, open_ready, sealed_valid, opened_valid;
  logic opening;        // the direction of the blocks in flight
  logic [2:0] flying;   // blocks in flight, four at most
  logic take, give, may_enter;

  bytes_swap #(.BYTES(32)) swap_key (.x(key), .y(key_data));
  bytes_swap swap_in (.x(in_block), .y(block));
  bytes_swap swap_out (.x(made), .y(out_block));

  aes_iter seal (
      .clk,
      .rst,
      .key_valid(key_valid && key_ready),
      .key_ready(seal_key_ready),
      .key_slot (1'b0),
      .key_data,
      .key_len,
      .in_valid (in_valid && may_enter && !in_dec),
      .in_ready (seal_ready),
      .in_data  (block),
      .in_slot  (1'b0),
      .in_tag   (1'b0),
      .out_valid(sealed_valid),
      .out_ready(out_ready && !opening),
      .out_data (sealed),
      .out_tag  ()
  );

  if (OPENS) begin : g_open
    aes_iter #(.INVERSE(1)) open (
        .clk,
        .rst,
        .key_valid(key_valid && key_ready),
        .key_ready(open_key_ready),
        .key_slot (1'b0),
        .key_data,
        .key_len,
        .in_valid (in_valid && may_enter && in_dec),
        .in_ready (open_ready),
        .in_data  (block),
        .in_slot  (1'b0),
        .in_tag   (1'b0),
        .out_valid(opened_valid),
        .out_ready(out_ready && opening),
        .out_data (opened),
        .out_tag  ()
    );
  end else begin : g_open
    assign open_key_ready = 1'b1;
    assign open_ready = 1'b0;
    assign opened_valid = 1'b0;
    assign opened = '0;
  end

  assign key_ready = seal_key_ready && open_key_ready && flying == 0;
  assign may_enter = seal_key_ready && open_key_ready && (flying == 0 || in_dec == opening);
  assign in_ready = may_enter && (in_dec ? open_ready : seal_ready);
  assign out_valid = opening ? opened_valid : sealed_valid;
  assign made = opening ? opened : sealed;
  assign take = in_valid && in_ready;
  assign give = out_valid && out_ready;

  always_ff @(posedge clk) begin
    if (take) opening <= in_dec;
    flying <= flying + 3'(take) - 3'(give);
    if (rst) begin
      opening <= 1'b0;
      flying  <= 3'd0;
    end
  end
endmodule
