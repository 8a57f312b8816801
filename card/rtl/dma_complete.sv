// Writes a completion of 16 bytes for each descriptor, and raises the interrupt after so many
// completions or so long after the first that was not reported. Waits while the host has not read
// the ring's oldest.
module dma_complete (
    input  logic        clk,
    input  logic        rst,
    input  logic [31:0] base,
    input  logic [15:0] mask,
    input  logic [15:0] head, // how far the host has read
    output logic [15:0] tail,
    input  logic        tx_valid,
    output logic        tx_ready,
    input  logic [31:0] tx_cookie,
    input  logic        tx_bad,
    input  logic        rx_valid,
    output logic        rx_ready,
    input  logic [31:0] rx_cookie,
    input  logic [15:0] rx_bytes,
    input  logic        rx_bad,
    input  logic [63:0] rx_status,
    output logic        req_valid,
    input  logic        req_ready,
    output logic [31:0] req_addr,
    output logic        wr_valid,
    input  logic        wr_ready,
    output logic [63:0] wr_data,
    input  logic [15:0] irq_count, // 0: off
    input  logic [31:0] irq_time,
    input  logic        irq_ack,
    output logic        irq
);
  localparam logic [1:0] IDLE = 0, ASK = 1, WORD0 = 2, WORD1 = 3;
  logic [1:0]  state;
  logic        receive, phase, take_rx;
  logic [63:0] word0, word1;
  logic        room;
  assign room = tail - head <= mask; // fewer than all entries wait
  assign take_rx = rx_valid && (!tx_valid || !receive);
  assign rx_ready = state == IDLE && room && take_rx;
  assign tx_ready = state == IDLE && room && !take_rx;
  assign req_valid = state == ASK;
  assign req_addr = base + {12'b0, tail & mask, 4'b0000};
  assign wr_valid = state == WORD0 || state == WORD1;
  assign wr_data = state == WORD0 ? word0 : word1;
  // Tells a new entry from one of the last lap.
  assign phase = (tail & (mask + 16'd1)) == '0;

  logic [15:0] waiting;
  logic [31:0] age;
  logic        written;
  assign written = state == WORD1 && wr_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      state <= IDLE;
      tail <= '0;
      receive <= 1'b0;
      irq <= 1'b0;
      waiting <= '0;
      age <= '0;
    end else begin
      case (state)
        IDLE: if (room && (rx_valid || tx_valid)) begin
          receive <= take_rx;
          // The phase is in the word that is written last, so an entry that shows it is whole.
          word0 <= take_rx ? rx_status : '0;
          word1 <= take_rx ? {8'b0, 5'b0, rx_bad, 1'b1, phase, rx_bytes, rx_cookie} : {8'b0, 5'b0, tx_bad, 1'b0, phase, 16'b0, tx_cookie};
          state <= ASK;
        end
        ASK: if (req_ready) state <= WORD0;
        WORD0: if (wr_ready) state <= WORD1;
        default: if (wr_ready) begin
          tail <= tail + 1'b1;
          state <= IDLE;
        end
      endcase
      if (irq_ack) irq <= 1'b0;
      if (waiting != '0) age <= age + 1'b1;
      if (written) waiting <= waiting + 1'b1;
      if ((irq_count != '0 && waiting >= irq_count) || (irq_time != '0 && waiting != '0 && age >= irq_time)) begin
        irq <= 1'b1;
        waiting <= {15'b0, written};
        age <= '0;
      end
    end
  end
endmodule
